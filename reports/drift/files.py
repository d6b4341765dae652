"""Files of ours: strict JSON, one line for what fits in one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

LINE = 110  # characters: a figure with its interval, or its repeats, stays one line of a diff


class Refused(Exception):
    """Wrong use or input; the message is one line."""


def compact(document: object) -> str:
    """JSON for machines."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True) + "\n"


def pretty(document: object) -> str:
    """JSON for a diff: sorted, one line for every list and for every object that fits in one."""
    return "\n".join(_lines(document, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterable[str]:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True)
    if not isinstance(value, dict) or len(flat) + len(indent) <= LINE:
        return [indent + flat]
    lines = [indent + "{"]
    for number, key in enumerate(sorted(value)):
        inner = list(_lines(value[key], indent + " "))
        inner[0] = f"{indent} {json.dumps(key, ensure_ascii=False)}: {inner[0].strip()}"
        inner[-1] += "," * (number < len(value) - 1)
        lines += inner
    return [*lines, indent + "}"]
