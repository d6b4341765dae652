"""How small a change of what was measured would have changed its verdict: what a claim can see, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lib.intervals import Estimate
from reports.judge import Measured, judge
from reports.ledger import Figure
from reports.plants import numbers
from reports.verdict import Verdict

SMALLEST, LARGEST = 2.0**-40, 2.0**10  # relative: a trillionth, and a thousandfold; a figure off by more is no slip
BISECTIONS = 20  # to a millionth of the last doubling
MOST_CASES = 12  # of a table are changed one by one; above, only all together
_DECIDED = frozenset({Verdict.HOLDS, Verdict.CONDITIONAL, Verdict.REFUTED})


def smallest_change(figure: Figure, measured: Measured, cautious: bool = False) -> float | None:
    """The smallest relative change of the value (or of one of its cases) that decides the figure otherwise.

    0.01 is one percent; of a value that is zero it is a share of the stated one, or of 1. None where no change up to a
    thousandfold does. A truth has no size: turning it round counts as 1.
    """
    before = judge(figure, measured, cautious).verdict
    if figure.relation == "true":
        turned = [judge(figure, other, cautious).verdict for other in _turned(measured)]
        return 1.0 if any(verdict in _DECIDED and verdict is not before for verdict in turned) else None

    def flips(change: Callable[[float], Measured], size: float) -> bool:
        verdict = judge(figure, change(size), cautious).verdict
        return verdict in _DECIDED and verdict is not before

    found = [_smallest(partial(flips, change)) for change in _changes(figure, measured)]
    return min((size for size in found if size is not None), default=None)


def _turned(measured: Measured) -> Iterator[Measured]:
    """A truth, or each of several, and all of them, turned round."""
    yield numbers(measured, lambda n: n, flip=True)
    for key in _cases(measured):
        one: dict[Any, Any] = {**measured}  # type: ignore[dict-item]
        yield one | {key: not one[key]}


def _smallest(flips: Callable[[float], bool]) -> float | None:
    size = SMALLEST
    while not flips(size):
        size *= 2
        if size > LARGEST:
            return None
    low, high = size / 2, size
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if flips(middle) else (middle, high)
    return high


def _changes(figure: Figure, measured: Measured) -> Iterator[Callable[[float], Measured]]:
    """Ways of changing the value by a size: up and down, all of it, and each case of a table by itself."""
    zero = _zero(figure)
    for sign in (1, -1):
        yield partial(_moved, measured, sign * zero, sign)
        for key in _cases(measured):
            yield partial(_one_moved, measured, key, sign * zero, sign)


def _cases(measured: Measured) -> list[Any]:
    if isinstance(measured, Estimate) or not isinstance(measured, Mapping | Sequence):
        return []
    keys = list(measured) if isinstance(measured, Mapping) else list(range(len(measured)))
    return keys if 1 < len(keys) <= MOST_CASES else []


def _moved(value: Any, zero: float, sign: int, size: float) -> Any:
    return numbers(value, lambda n: n + size * (sign * float(n) if n else zero))


def _one_moved(measured: Any, key: Any, zero: float, sign: int, size: float) -> Any:
    changed = dict(measured) if isinstance(measured, Mapping) else list(measured)
    changed[key] = _moved(changed[key], zero, sign, size)
    return changed


def _zero(figure: Figure) -> float:
    stated = figure.interval()
    return float(stated.value) or 1.0 if stated is not None else 1.0
