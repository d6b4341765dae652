"""One self-contained HTML file: no network, no external style, script or font. Everything recorded is escaped."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from reports.render import figures, sentences
from reports.render.model import SYMBOLS, Claim, Page
from reports.render.plot_view import plot_view
from reports.render.table_view import table_view
from reports.render.words import Words


def anchor(claim_id: str) -> str:
    """A fragment name for a claim that needs no escaping in an address."""
    return "claim-" + re.sub(r"[^\w.-]", "-", claim_id)


def keys(claim: Claim) -> str:
    """What the verdict filter finds a row by: its category, and its outcome where that is news."""
    return " ".join([claim.category, *([claim.outcome] if claim.is_news else [])])


def filters(page: Page, w: Words) -> list[tuple[str, str, int]]:
    """The filter buttons (key, word, count); those that would find nothing are left out."""
    rows = [(name, w.name("verdict", name), count) for name, count in page.counts().items()]
    rows += [(name, w.name("outcome", name), len(page.with_outcome(name))) for name in ("changed", "new")]
    return [row for row in rows if row[2]]


def _vocabulary(page: Page, w: Words) -> dict[str, Any]:
    """What the template may call."""
    told: dict[str, Any] = {
        name: partial(getattr(sentences, name), w=w)
        for name in ("says", "erratum", "defects", "why_not", "record_line", "decisive", "measured_briefly")
    }
    drawn = {
        name: partial(getattr(figures, name), w=w) for name in ("measured", "published", "interval", "cases", "short")
    }
    return {
        **told,
        **drawn,
        "w": w,
        "page": page,
        "symbols": SYMBOLS,
        "anchor": anchor,
        "keys": keys,
        "bar": figures.bar,
        "table_view": partial(table_view, w=w),
        "plot_view": partial(plot_view, w=w),
        "measured_on": partial(sentences.measured_on, page=page, w=w),
        "kinds": sentences.KINDS,
        "num_errata": {kind: len(page.errata(kind)) for kind in sentences.KINDS if page.errata(kind)},
        "filters": filters(page, w),
        "run_facts": sentences.run_facts(page, w),
        "headline": sentences.headline(page, w),
        "lede": sentences.lede(page, w),
        "model_line": sentences.model_line(page.model, page.complete, w),
    }


def render_page(page: Page, w: Words) -> str:
    """The whole page as text."""
    import jinja2  # late: a run that renders nothing does not pay for it

    loader = jinja2.FileSystemLoader(Path(__file__).with_name("templates"))
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(_vocabulary(page, w))
