"""Where the texts beside the points of a plot stand, so that no two of them touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDE, NARROW, HEIGHT = 540.0, 250.0, 240.0  # pixels of the drawn area: on a desk, on a phone, and its height
GLYPH, LINE = 6.6, 13.0  # pixels of a letter and of a line at the size of a label
ASIDE, ABOVE, BELOW = 8, -6, 15  # pixels from the point to the text
TURN = 80.0  # percent: a label further right stands at the left of its point

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels


@dataclass(frozen=True)
class Place:
    """Beside which side of its point a label stands, how far below it, and whether only a wide screen has room."""

    left: bool
    y: int
    spare: bool


def places(points: Sequence[tuple[float, float, str]]) -> list[Place | None]:
    """A place for each (x in percent, y in percent from the top, text); None where no side of the point is free."""
    wide: list[Box] = []
    narrow: list[Box] = []
    found: list[Place | None] = []
    for x, y, text in points:
        sides = _sides(x)
        free = next((side for side in sides if text and _is_free(_box(x, y, text, side, WIDE), wide)), None)
        if free is None:
            found.append(None)
            continue
        wide.append(_box(x, y, text, free, WIDE))
        small = _box(x, y, text, free, NARROW)
        fits = _is_free(small, narrow)
        narrow += [small] * fits
        found.append(Place(*free, not fits))
    return found


def _sides(x: float) -> list[tuple[bool, int]]:
    """The sides to try: away from the edge first, above before below."""
    first = x > TURN
    return [(first, ABOVE), (first, BELOW), (not first, ABOVE), (not first, BELOW)]


def _box(x: float, y: float, text: str, side: tuple[bool, int], width: float) -> Box:
    left, down = side
    start, length = x / 100 * width + (-ASIDE if left else ASIDE), GLYPH * len(text)
    bottom = y / 100 * HEIGHT + down + LINE / 4
    return (start - length, bottom - LINE, start, bottom) if left else (start, bottom - LINE, start + length, bottom)


def _is_free(box: Box, taken: list[Box]) -> bool:
    return not any(a < box[2] and box[0] < c and b < box[3] and box[1] < d for a, b, c, d in taken)
