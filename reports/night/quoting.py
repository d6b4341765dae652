"""Text from records in GitHub's Markdown: always inside a code span, where nothing is markup, mention or reference.

GitHub looks for `@name` and `#12` in the rendered text, so that neither a backslash nor an entity stops it; inside code
it does not look. A code span ends at a backtick and a cell at a bar, so both are replaced.
"""

from __future__ import annotations

import json
import re
import unicodedata

_CUT = "…"


def quoted(text: str, limit: int = 120) -> str:
    """`text` as one code span of at most `limit` characters that cannot be left from inside; a dash if it is empty."""
    visible = "".join(
        " " if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"} else c for c in text[: 4 * limit]
    )
    line = " ".join(visible.replace("`", "'").replace("|", "¦").split())
    short = line if len(line) <= limit else line[: limit - len(_CUT)].rstrip() + _CUT
    return f"`{short}`" if short else "–"


def quoted_value(value: object, limit: int = 60) -> str:
    """A measured value (a number, an interval, cases) in short, quoted."""
    if value is None:
        return "–"
    if isinstance(value, dict) and {"value", "low", "high"} <= value.keys():
        return quoted(f"{_short(value['value'])} [{_short(value['low'])}, {_short(value['high'])}]", limit)
    return quoted(_short(value), limit)


def link(url: str, words: str) -> str:
    """A link to a run of ours; anything that is not a plain https address becomes the words alone."""
    return f"[{words}]({url})" if re.fullmatch(r"https://[\w.:-]+(/[\w.-]+)*", url) else words


def row(cells: list[str]) -> str:
    """One line of a pipe table, of cells that are quoted already."""
    return "| " + " | ".join(cells) + " |"


def head(names: list[str]) -> list[str]:
    """The two lines that open a pipe table."""
    return [row(names), row(["---"] * len(names))]


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
