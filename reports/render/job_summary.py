"""The short summary for a CI job's page: headline, what to look at, counts, and each erratum on one line.

GitHub refuses a step summary above 1 MiB; this one stays far below it whatever it is given, and says what it left out.
"""

from __future__ import annotations

from reports.render import sentences
from reports.render.markdown import code, escape, top
from reports.render.model import SYMBOLS, Claim
from reports.render.page_model import KINDS, Page
from reports.render.words import Words

MOST_FLAGS, MOST_ERRATA = 100, 200  # lines
LONGEST = 240  # characters of a line before it is escaped: at most some 1,500 after, and 300 lines of those are 450 KB
MAX_BYTES = 1_000_000  # a last resort, below GitHub's limit


def render_job_summary(page: Page, w: Words) -> str:
    """The summary as Markdown."""
    lines = [_short(line) for line in top(page, w, MOST_FLAGS)]
    for kind in KINDS:
        found = page.errata(kind)
        if found:
            lines += [f"### {w('standing.' + kind)} ({len(found)})", "", *_lines(found, w), ""]
    return "\n".join([*lines, ""]).encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore")


def _lines(found: list[Claim], w: Words) -> list[str]:
    rest = len(found) - MOST_ERRATA
    told = [_line(claim, w) for claim in found[:MOST_ERRATA]]
    return [*told, f"- … {w('ui.more', n=rest)}"] if rest > 0 else told


def _line(claim: Claim, w: Words) -> str:
    first = (sentences.erratum(claim, w) or w("ui.no_erratum_text")).partition(". ")[0]
    return f"- {SYMBOLS[claim.category]} {code(claim.id[:LONGEST])}: {escape(_cut(first))}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _short(line: str) -> str:
    """A line that is escaped already, cut where no entity and no escape can be torn."""
    if len(line) <= 4 * LONGEST:
        return line
    return line[: 4 * LONGEST].rpartition(" ")[0].rstrip("\\") + " …"
