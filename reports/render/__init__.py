"""Evidence → pages. `write_pages` is what a run calls when it ends; `python -m reports build` does more, afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reports.atomic import write_text
from reports.names import is_safe_id, record_in
from reports.render.model import Note
from reports.render.page_model import Page
from reports.render.reading import page as read_page
from reports.render.words import Words


def write_pages(
    summary: Mapping[str, object],
    out: Path,
    lang: str = "en",
    complete: bool = True,
    warnings: tuple[Note, ...] = (),
) -> list[Path]:
    """Write `report.html` and `report.md` into `out` and return their paths.

    `complete=False` says on the page that the run did not finish. Content that is malformed becomes a visible
    error row; only a folder that cannot be written raises (OSError).
    """
    return write_rendered(read_page(summary, complete, warnings), out, lang)


def write_rendered(page: Page, out: Path, lang: str) -> list[Path]:
    """The same for a page that has been read already."""
    from reports.render.markdown import render_markdown
    from reports.render.page import render_page

    def has_record(claim_id: str) -> bool:
        return is_safe_id(claim_id) and record_in(out / "records", claim_id).is_file()

    w = Words(lang)
    out.mkdir(parents=True, exist_ok=True)
    html, markdown = out / "report.html", out / "report.md"
    write_text(html, render_page(page, lang, has_record))
    write_text(markdown, render_markdown(page, w))
    return [html, markdown]


def write_all(page: Page, out: Path, lang: str) -> list[Path]:
    """The two pages, and for machines and job summaries: summary.md, claims.json, junit.xml, badge.svg; their paths."""
    from reports.evidence import write_json
    from reports.render.badge import render_badge
    from reports.render.claims_json import claims_document
    from reports.render.job_summary import render_job_summary
    from reports.render.junit import render_junit

    paths = write_rendered(page, out, lang)
    w = Words(lang)
    summary, claims, junit, badge = (out / name for name in ("summary.md", "claims.json", "junit.xml", "badge.svg"))
    write_text(summary, render_job_summary(page, w))
    write_json(claims, claims_document(page))
    write_text(junit, render_junit(page, w))
    write_text(badge, render_badge(page, w))
    return [*paths, summary, claims, junit, badge]
