"""Evidence → pages. `write_pages` is what a run calls when it ends; `python -m reports build` does it afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from reports.render.model import Note, Page
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

    w = Words(lang)
    out.mkdir(parents=True, exist_ok=True)
    html, markdown = out / "report.html", out / "report.md"
    _write(html, render_page(page, w))
    _write(markdown, render_markdown(page, w))
    return [html, markdown]


def _write(path: Path, content: str) -> None:
    """All or nothing: a reader never sees half a page."""
    partial = path.with_suffix(path.suffix + f".{os.getpid()}")
    partial.write_text(content, encoding="utf-8", newline="\n")
    os.replace(partial, path)
