"""Small summaries in the shape that a run writes, and a reader of the pages rendered from them."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from reports.render import write_pages
from reports.render.packs import unpacked
from reports.render.words import spoken

Raw = dict[str, Any]

MODEL: Raw = {
    "name": "Qwen2.5-Coder-0.5B-Instruct", "slug": "qwen2.5-coder-0.5b-instruct", "digest": "1d9614638d18",
    "parameters": 494_032_768, "dtype": "float32", "device": "cpu", "trained": True, "is_chapter": False,
    "note": "dequantized from a GGUF of about 5.5 bits per weight",
}  # fmt: skip
RUN: Raw = {
    "started": "2026-11-30T03:14:15+00:00", "seconds": 211.4, "commit": "0123456789ab", "dirty": False,
    "python": "3.11.7", "torch": "2.13.0", "transformers": "5.24.0", "platform": "Linux x86_64", "threads": 2,
    "command": "pytest claims/",
}  # fmt: skip


def aspect(verdict: str | None = "HOLDS", **changes: Any) -> Raw:
    """One aspect: a printed figure that was measured and holds."""
    published = {"value": "12,288", "unit": "byte", "interval": [12287.5, 12288.5], "origin": "printed", "why": ""}
    raw = {"verdict": verdict, "bears": "number", "relation": "equal", "measured": 12288, "published": published}
    return raw | {"reason": "", "unit": "byte"} | changes


def entry(verdict: str | None = "HOLDS", **changes: Any) -> Raw:
    """One claim, as on record, with one aspect of the same verdict."""
    raw: Raw = {
        "verdict": verdict, "on_record": verdict, "outcome": "as-recorded", "transferred": False, "standing": None,
        "says": "the cache takes 12,288 bytes per token", "says_id": "cache memakan 12.288 byte per token",
        "where": "size of the cache", "warrant": "exact", "needs": [], "section": "cache-size", "reason": "",
        "error": "", "erratum": "", "erratum_id": "", "aspects": {"bytes": aspect(verdict)}, "notes": [],
        "condition": "", "protocol": {}, "seconds": 0.2, "test": "claims/test_cache_size.py::test_formula",
    }  # fmt: skip
    return raw | changes


def refuted(standing: str = "proven", **changes: Any) -> Raw:
    """A known erratum: refuted, and refuted on record."""
    wrong = aspect("REFUTED", measured=0.211, reason="0.211 is not 0.28")
    words = {"erratum": "write 21 %", "erratum_id": "tulis 21 %", "standing": standing}
    return entry("REFUTED", aspects={"gain": wrong}, **words) | changes


def not_measured(reason: str = "needs a GPU", **changes: Any) -> Raw:
    """A claim that this run could not measure."""
    return entry("NOT_MEASURED", outcome="not-measured", on_record="HOLDS", reason=reason, aspects={}) | changes


def pending(**changes: Any) -> Raw:
    """A statement whose test is still to be written."""
    return entry("NOT_MEASURED", outcome="pending", on_record=None, reason="pending: no test yet", aspects={}) | changes


def failed(error: str = "call: ZeroDivisionError: division by zero", **changes: Any) -> Raw:
    """A claim whose test raised."""
    return entry(None, outcome="error", on_record="HOLDS", error=error, aspects={}) | changes


def summary(claims: dict[str, Any], **changes: Any) -> Raw:
    """A whole run of these claims, with counts that fit."""
    counts = Counter(
        c["outcome"] if c["outcome"] in ("error", "pending") else str(c["verdict"]) for c in claims.values()
    )
    return {"schema": 1, "run": dict(RUN), "model": dict(MODEL), "counts": dict(counts), "claims": claims} | changes


def everything() -> dict[str, Any]:
    """A run with every verdict, outcome, standing and kind of measured value."""
    cases = aspect("CONDITIONAL", relation="greater", bears="conclusion", measured={"16": 0.1, "4096": 0.9})
    straddling = aspect("UNRESOLVED", measured={"value": 1.02, "low": 0.93, "high": 1.11})
    trend = aspect(relation="increasing", published=None, measured=list(range(40)), unit="ms")
    return {
        "cache-size.holds": entry(),
        "weights.proven": refuted(),
        "weights.likely": refuted("likely"),
        "weights.elsewhere": refuted("does-not-transfer"),
        "weights.new": entry(outcome="new", on_record=None),
        "weights.unseen": not_measured(on_record="REFUTED", erratum="known"),
        "activations.trend": entry(aspects={"t": trend}),
        "kv-cache.conditional": entry("CONDITIONAL", standing="likely", aspects={"share": cases}, condition="from 64"),
        "kv-cache.straddles": entry("UNRESOLVED", outcome="unresolved", on_record="HOLDS", aspects={"r": straddling}),
        "kv-cache.changed": refuted(outcome="changed", on_record="HOLDS", standing=None),
        "omissions.gpu": not_measured(),
        "quality.pending": pending(),
        "serving.true": entry(transferred=True),
        "unheard-of.failed": failed(),
    }


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text outside of script and style."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data

    def rows(self) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.tags if tag == "details" and attrs.get("class") == "claim"]


def packs_of(html: str) -> Raw:
    """What the page holds packed: languages, pages, and the cards of each section."""
    told = json.loads(html.split('id="packs">', 1)[1].split("</script>", 1)[0])
    return told | {"pages": unpacked(told["pages"]), "cards": [unpacked(part) for part in told["cards"]]}


def opened(html: str, lang: str = "en") -> str:
    """The page with every card put in place, as page.js does it, and without the packed text."""
    cards = iter([spoken(card, lang) for part in packs_of(html)["cards"] for card in part])
    whole = re.sub(r'<div class="body"></div>', lambda _: f'<div class="body">{next(cards)}</div>', html)
    return re.sub(r'(id="packs">).*?(</script>)', r"\1\2", whole, flags=re.DOTALL)


def pages(raw: dict[str, Any], out: Path, lang: str = "en") -> tuple[str, str]:
    """The page with its cards open, and the Markdown."""
    html, markdown = write_pages(raw, out, lang)
    return opened(html.read_text(encoding="utf-8"), lang), markdown.read_text(encoding="utf-8")


def one(raw: dict[str, Any], out: Path, lang: str = "en") -> tuple[str, str]:
    return pages(summary({"cache-size.one": raw}), out, lang)
