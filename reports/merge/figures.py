"""Whether two measurements of one figure can both stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reports.merge.strict import finite, shown
from reports.records import Record

# By these warrants a figure comes with an interval, and two runs may differ inside it.
WITH_INTERVALS = frozenset({"sampled", "timed"})
# Sums of fp32 products in another order: a run with other threads adds up to 64 partial sums otherwise, and each
# addition rounds to half of 2**-23 of its result. Between runs of equal threads nothing may differ.
OTHER_ORDER = 64 * 2.0**-24
_ENDS = frozenset({"value", "low", "high"})


def contradictions(one: Record, other: Record) -> Iterator[str]:
    """The figures of two records with a verdict that cannot both be, in words."""
    slack = 0.0 if one.get("threads") == other.get("threads") else OTHER_ORDER
    for name in sorted(_judged(one) | _judged(other)):
        a, b = (record["aspects"].get(name) for record in (one, other))
        if a is None or b is None:
            yield f"{shown(name)} was measured by one of them only"
        elif a.get("verdict") != b.get("verdict") and not _undecided(one["warrant"], a, b):
            yield f"{shown(name)} is {shown(a.get('verdict'))} and {shown(b.get('verdict'))}"
        elif "NOT_MEASURED" not in {a.get("verdict"), b.get("verdict")}:
            yield from _apart(shown(name), a.get("measured"), b.get("measured"), one["warrant"], slack)


def _judged(record: Record) -> set[str]:
    """The figures that decide; what was recorded for context may differ."""
    return {name for name, aspect in record["aspects"].items() if aspect.get("verdict") is not None}


def _undecided(warrant: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """What one sample could not tell, another may; what one run had no means to measure likewise."""
    either = {a.get("verdict"), b.get("verdict")}
    return "NOT_MEASURED" in either or ("UNRESOLVED" in either and warrant in WITH_INTERVALS)


def _apart(name: str, a: Any, b: Any, warrant: str, slack: float) -> Iterator[str]:
    """Where two measurements differ more than they may: a number, an interval, or a case of many."""
    if isinstance(a, list) and isinstance(b, list):
        a, b = dict(enumerate(a, 1)), dict(enumerate(b, 1))
    several = isinstance(a, dict) and isinstance(b, dict) and not (_is_estimate(a) or _is_estimate(b))
    if several and a.keys() == b.keys():
        for case in a:
            yield from _apart(f"{name} at {shown(case)}", a[case], b[case], warrant, slack)
    elif several or not _agree(a, b, warrant, slack):
        yield f"{name} is {_said(a)} and {_said(b)}"


def _agree(a: Any, b: Any, warrant: str, slack: float) -> bool:
    if warrant in WITH_INTERVALS and (_is_estimate(a) or _is_estimate(b)):
        return _overlap(a, b)
    if _is_estimate(a) and _is_estimate(b):
        return all(_agree(a[end], b[end], warrant, slack) for end in _ENDS)
    x, y = finite(a), finite(b)
    if x is None or y is None:
        return type(a) is type(b) and bool(a == b)
    return warrant == "timed" or abs(x - y) <= slack * max(abs(x), abs(y))  # a time without an interval tells nothing


def _is_estimate(measured: Any) -> bool:
    return isinstance(measured, dict) and measured.keys() == _ENDS


def _overlap(a: Any, b: Any) -> bool:
    try:
        (low, high), (other_low, other_high) = (_interval(value) for value in (a, b))
    except (TypeError, ValueError):
        return False
    return low <= other_high and other_low <= high


def _interval(value: Any) -> tuple[float, float]:
    """The ends; an open one is stored as the word inf, a figure without an interval is its own."""
    return (float(value["low"]), float(value["high"])) if isinstance(value, dict) else (float(value), float(value))


def _said(measured: Any) -> str:
    if _is_estimate(measured):
        return shown(f"{_short(measured['value'])} [{_short(measured['low'])}, {_short(measured['high'])}]")
    return shown(measured)


def _short(number: Any) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)
