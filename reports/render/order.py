"""In which order errata are told: what falls with the statement first, and within that as the chapter goes."""

from __future__ import annotations

from collections.abc import Iterable

from reports.render.model import FLIP_ORDER, Claim
from reports.render.words import Words


def weightiest_first(claims: Iterable[Claim]) -> list[Claim]:
    """Flipped conclusions before explanations before figures; sections in the chapter's order, unknown ones last."""
    sections = Words("en").keys("section")
    places = {name: place for place, name in enumerate(sections)}
    return sorted(claims, key=lambda c: (FLIP_ORDER.index(c.flip), places.get(c.section, len(sections))))
