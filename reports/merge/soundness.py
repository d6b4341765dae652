"""Whether a record can be believed: the right types, and nothing in it that contradicts the rest of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.ledger import WARRANTS
from reports.merge.strict import Damaged, shown
from reports.names import is_safe_id
from reports.render import reading

_TEXTS = ("section", "says", "says_id", "where", "reason", "error", "erratum", "erratum_id", "condition")
_SHAPES: Mapping[str, Any] = {
    **dict.fromkeys(_TEXTS, str), "warrant": str, "outcome": str, "aspects": dict, "protocol": dict, "notes": list,
    "needs": list, "tables": list, "plots": list, "transferred": bool, "model": dict | None,
    "verdict": str | None, "on_record": str | None, "standing": str | None, "threads": int | None,
    "source": str, "test": str, "machine": str, "seconds": int | float,
}  # fmt: skip
_NEEDED = frozenset({"id", "verdict", "outcome", "warrant"})


def check_record(name: str, record: object) -> None:
    """Raise Damaged, in one line, for a record that this id cannot have."""
    if not isinstance(record, dict):
        raise Damaged(f"{type(record).__name__} instead of an object")
    if not is_safe_id(name):
        raise Damaged("an id that is none")
    if record.get("id") != name:
        raise Damaged(f"says that it is {shown(record.get('id'))!r}")
    lacking = sorted(_NEEDED - set(record))
    if lacking:
        raise Damaged(f"lacks {', '.join(lacking)}")
    _check_types(record)
    defects = reading.claim(name, record).defects
    if defects:
        raise Damaged("; ".join(shown(f"{kind} {detail}".strip()) for kind, detail in defects[:3]))


def _check_types(record: Mapping[str, Any]) -> None:
    for field, kind in _SHAPES.items():
        value = record.get(field)
        if field in record and (not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))):
            raise Damaged(f"{field} is {shown(value)!r}, a {type(value).__name__}")
    if record["warrant"] not in WARRANTS:
        raise Damaged(f"warrant {shown(record['warrant'])!r}")
    model = record.get("model")
    if model is not None and not isinstance(model.get("slug"), str):
        raise Damaged("a model without a slug")
