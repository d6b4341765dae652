"""One self-contained HTML file: no network, no external style, script or font. Everything recorded is escaped.

The header, the errata and one row per statement stand in the file as they are, in one language. The cards of every
statement, and that same part in the other language, are packed: rendered here too, and put in place by page.js.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.render import figures, sentences
from reports.render.card import card, drift_rows
from reports.render.model import DRIFT_MARKS, SYMBOLS, Drift
from reports.render.packs import packed
from reports.render.page_model import KINDS, Page, Row, letter
from reports.render.planted import controlled
from reports.render.words import LANGUAGES, NUMBER, OPEN, Bilingual, Words, both, spoken

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).with_name("templates")
TILE_TONES = {
    "HOLDS": "good",
    "CONDITIONAL": "erratum",
    "REFUTED": "erratum",
    "UNRESOLVED": "warn",
    "error": "bad",
    "missing": "bad",
}
ASPECT_TONES = {"UNRESOLVED": "warn", "REFUTED": "erratum", "CONDITIONAL": "erratum"}
MOST_TO_LOOK_AT = 50  # claims that the banner names; all of them have red rows
CLIP = 300  # characters of an id, a reason or a setting that a row or a list shows; the card has it whole
_JOINTS = re.compile(r"(?<=[_/:@=])(?=\w)|(?<=[.-])(?=[A-Za-z_])")  # of an identifier; a number has none
_BETWEEN = re.compile(r">\s+<")


def anchor(claim_id: str) -> str:
    """A fragment name for a claim that needs no escaping in an address."""
    return "claim-" + token(claim_id)


def erratum_anchor(claim_id: str) -> str:
    """The fragment name of a claim's erratum."""
    return "erratum-" + token(claim_id)


def token(given: str) -> str:
    """One word without anything special."""
    return re.sub(r"[^\w.-]", "-", given)


def clip(given: str) -> str:
    """The beginning of a text that may be of any length, and may be in both languages."""
    if len(given) > CLIP and (OPEN in given or NUMBER in given):
        return both(*(clip(spoken(given, lang)) for lang in LANGUAGES))
    return given if len(given) <= CLIP else given[: CLIP - 1] + "…"


def keys(row: Row) -> str:
    """What the verdict filter finds a row by: its categories, and its outcomes where they are news."""
    found = [key for _, c in row.present for key in (c.category, *([c.outcome] if c.is_news else []))]
    return " ".join(dict.fromkeys(found))


def drifts(row: Row) -> str:
    """What the drift filter finds a row by."""
    return " ".join(dict.fromkeys(c.drift.status for _, c in row.present if c.drift))


Choice = tuple[str, str, int]  # the value, its word, and how many rows have it


def choices(page: Page, of: Callable[[Row], list[str]], names: Mapping[str, str]) -> list[Choice]:
    """What can be chosen in a filter, in the order of `names`; what would find nothing is left out."""
    found = [key for row in page.rows for key in set(of(row))]
    known = [*(key for key in names if key in found), *dict.fromkeys(key for key in found if key not in names)]
    return [(key, names.get(key, key), found.count(key)) for key in known]


def _selects(page: Page, w: Words) -> list[tuple[str, str, list[Choice]]]:
    verdicts = {key: w.name("verdict", key) for key in SYMBOLS} | {k: w.name("outcome", k) for k in ("changed", "new")}
    warrants = {key: w("warrant_short." + key) for key in w.keys("warrant_short")}
    drift = {key: w("drift." + key) for key in w.keys("drift")}
    sections = [
        (str(place), w.name("section", name), len(rows))
        for place, (name, rows) in enumerate(page.sections(w.keys("section")))
    ]
    found = [
        ("section", w("ui.filter_section"), sections),
        ("verdict", w("ui.filter_verdict"), choices(page, lambda row: keys(row).split(), verdicts)),
        ("warrant", w("ui.filter_warrant"), choices(page, lambda row: [token(row.lead.warrant)], warrants)),
        ("drift", w("ui.filter_drift"), choices(page, lambda row: drifts(row).split(), drift)),
    ]
    return [select for select in found if select[2]]


_SENTENCES = (
    "says", "erratum", "why_not", "record_line", "measured_briefly", "subject_name", "faults", "finest",
)  # fmt: skip


def _vocabulary(page: Page, w: Words) -> dict[str, Any]:
    """What the templates may call and show."""
    return {"w": w, "page": page, **_CONSTANT, **_phrases(page, w), **_choosable(page, w), **_told(page, w)}


_CONSTANT: Mapping[str, Any] = {
    "bar": figures.bar,
    "symbols": SYMBOLS,
    "drift_marks": DRIFT_MARKS,
    "drift_tone": lambda status: Drift(status, "").tone,
    "tile_tones": TILE_TONES,
    "aspect_tones": ASPECT_TONES,
    "anchor": anchor,
    "erratum_anchor": erratum_anchor,
    "clip": clip,
    "keys": keys,
    "drifts": drifts,
    "letter": letter,
    "kinds": KINDS,
}


def _phrases(page: Page, w: Words) -> dict[str, Any]:
    """Functions that put something of a claim into words."""
    rows = {row.lead.id: row for row in page.rows}
    return {
        **{name: partial(getattr(sentences, name), w=w) for name in _SENTENCES},
        "measured": partial(figures.measured, w=w),
        "published": partial(figures.published, w=w),
        "drift_rows": partial(drift_rows, w=w),
        "measured_on": partial(sentences.measured_on, page=page, w=w),
        "elsewhere": lambda claim: sentences.elsewhere(rows[claim.id], page, w),
        "run_facts": partial(sentences.run_facts, w=w),
    }


def _choosable(page: Page, w: Words) -> dict[str, Any]:
    """Filters, and the tiles that set them."""
    selects = _selects(page, w)
    found = {name: offered for name, _, offered in selects}
    return {
        "selects": selects,
        "tiles": [choice for choice in found.get("verdict", []) if choice[0] in SYMBOLS],
        "drift_tiles": found.get("drift", []),
        "sections": page.sections(w.keys("section")),
    }


def _told(page: Page, w: Words) -> dict[str, Any]:
    """What stands above the claims."""
    look = sentences.to_look_at(page, w)
    return {
        "num_errata": {kind: len(page.errata(kind)) for kind in KINDS if page.errata(kind)},
        "headline": sentences.headline(page, w),
        "tone": page.headline()[1],
        "look": look[:MOST_TO_LOOK_AT],
        "more_to_look": max(0, len(look) - MOST_TO_LOOK_AT),
        "controlled": controlled(page),
        "controls_told": sentences.controls_told(page, w) if page.has_controls else "",
        "lede": sentences.lede(page, w),
        "model_line": sentences.model_line(page.subjects[0].model, page.complete, w),
    }


def _environment() -> jinja2.Environment:
    import jinja2  # late: a run that renders nothing does not pay for it

    loader = jinja2.FileSystemLoader(TEMPLATES)
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    environment = jinja2.Environment(loader=loader, autoescape=True, **options)
    environment.filters |= {"breakable": breakable, "token": token}
    return environment


def breakable(given: str) -> Any:
    """Text in which an identifier may be broken at its joints, and is not broken anywhere else."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(_JOINTS.split(given)) if _JOINTS.search(given) else escape(given)


def _squeezed(html: str) -> str:
    """Without the templates' indentation. Recorded text has no `<`, so that only what is between tags can match."""
    return _BETWEEN.sub(">\n<", html).strip()


def render_page(page: Page, lang: str, has_record: Callable[[str], bool]) -> str:
    """The whole page as text, opening in `lang`; `has_record` tells whose evidence lies beside it."""
    from markupsafe import Markup

    environment, w = _environment(), Bilingual()
    vocabulary = _vocabulary(page, w)
    body = _squeezed(environment.get_template("body.html.j2").render(vocabulary))
    langs = [lang, *(other for other in LANGUAGES if other != lang)]
    others = {other: {"title": Words(other)("ui.title"), "html": spoken(body, other)} for other in langs[1:]}
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shell = {
        "w": Words(lang),
        "body": Markup(spoken(body, lang)),  # noqa: S704  # rendered above, escaped there
        "script": Markup(script),  # noqa: S704  # our own file
        "script_hash": f"sha256-{digest}",
        "packs": Markup(packed(langs, others, _cards(environment, vocabulary, has_record))),  # noqa: S704  # base64
    }
    return environment.get_template("page.html.j2").render(shell)


def _cards(
    environment: jinja2.Environment, vocabulary: Mapping[str, Any], has_record: Callable[[str], bool]
) -> list[list[str]]:
    """For each section the cards of its rows, in both languages: most of a card is the same in either."""
    module: Any = environment.get_template("card.html.j2").make_module(dict(vocabulary))
    page, w = vocabulary["page"], vocabulary["w"]
    return [
        [_squeezed(str(module.whole(card(row, page, has_record, w)))) for row in rows]
        for _, rows in vocabulary["sections"]
    ]
