"""What somebody accepted: one file per subject, `<subject>.json`, written by `accept.py` and by nothing else.

    {"schema": 1, "subject": key, "runs": [facts of each accepted run], "speed": {rate of the machine: [per run]},
     "claims": {id: {"warrant", "clocked", "verdicts", "runs": [places in "runs"], "threads", "source", "protocol",
       "model": {"digest", "dtype", "device"} or null, "figures": {name: {"verdicts", "leaves": {place: leaf}}}}}}

Leaves are an object by place, or a list where the places are 0, 1, 2.
A leaf is a scalar, [value, low, high], or {"repeats": [...], "low", "high"} where the accepted runs do not agree: what
the baseline's own repeats do not reproduce is held to their spread, by whatever warrant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.drift.files import Refused
from reports.drift.fingerprint import Fingerprint, model_print
from reports.drift.leaves import Leaf, Plain
from reports.merge.strict import DOCUMENT_BYTES, Damaged, finite, json_files, read_json, shown
from reports.subject_key import machine_of
from reports.verdict import Verdict

_VERDICTS = frozenset({"", "None", *(verdict.value for verdict in Verdict)})
SCHEMA = 1


@dataclass(frozen=True)
class KnownLeaf:
    """A leaf of the baseline; with repeats where the accepted runs gave different values."""

    leaf: Leaf
    repeats: tuple[float, ...] = ()


@dataclass(frozen=True)
class KnownFigure:
    """A figure of the baseline and every verdict that the accepted runs gave it; none for context."""

    verdicts: frozenset[str]
    leaves: Mapping[str, KnownLeaf]


@dataclass(frozen=True)
class Known:
    """A statement of the baseline."""

    warrant: str
    clocked: bool
    verdicts: frozenset[str]
    figures: Mapping[str, KnownFigure]
    fingerprint: Fingerprint
    facts: Mapping[str, Any]
    newest: str
    num_runs: int


@dataclass(frozen=True)
class Baseline:
    """A file; `raw` is what it holds, for the command that rewrites it."""

    subject: str
    claims: Mapping[str, Known]
    speed: Mapping[str, tuple[float, ...]]
    raw: Mapping[str, Any]


def read_baselines(folder: Path) -> dict[str, Baseline]:
    """Every baseline of a folder by subject. Raises Refused for a file that is none of this schema."""
    if not folder.is_dir():
        return {}
    found = {}
    for path in json_files(folder):
        try:
            baseline = _baseline(read_json(path, DOCUMENT_BYTES))
        except Damaged as fault:
            raise Refused(f"baseline {path.name}: {fault}") from None
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as fault:
            raise Refused(f"baseline {path.name}: malformed ({type(fault).__name__} {shown(fault)})") from None
        if path.stem != baseline.subject:
            raise Refused(f"baseline {path.name}: says that it is of {shown(baseline.subject)}")
        found[baseline.subject] = baseline
    return found


def leaf_json(known: KnownLeaf) -> Any:
    """A leaf as the file has it."""
    if known.repeats:
        return {"repeats": list(known.repeats), "low": known.leaf.low, "high": known.leaf.high}
    leaf = known.leaf
    return leaf.value if leaf.low is None and leaf.high is None else [leaf.value, leaf.low, leaf.high]


def by_place(leaves: Any) -> dict[str, Any]:
    """The leaves of a figure in the file: an object, or a list where the places are 0, 1, 2."""
    return {str(i): leaf for i, leaf in enumerate(leaves)} if isinstance(leaves, list) else dict(leaves)


def packed(leaves: Mapping[str, Any]) -> Any:
    """The other way round."""
    return list(leaves.values()) if leaves and list(leaves) == [str(i) for i in range(len(leaves))] else dict(leaves)


def middle(repeats: tuple[float, ...]) -> float:
    """The mean of repeats: what a band is drawn about."""
    return sum(repeats) / len(repeats)


def _baseline(raw: Any) -> Baseline:
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        said = shown(raw.get("schema")) if isinstance(raw, dict) else type(raw).__name__
        raise Damaged(f"schema {said}, this version reads {SCHEMA}")
    subject = str(raw["subject"])
    speed = {str(name): tuple(float(rate) for rate in rates) for name, rates in raw["speed"].items()}
    if not all(0 < rate < math.inf for rates in speed.values() for rate in rates):
        raise Damaged("a speed is not a positive number")
    claims = {str(key): _known(entry, raw["runs"], subject) for key, entry in raw["claims"].items()}
    return Baseline(subject, claims, speed, raw)


def _known(raw: Mapping[str, Any], runs: list[Any], subject: str) -> Known:
    own = [runs[place] for place in raw["runs"]]
    figures = {str(name): _figure(figure) for name, figure in raw["figures"].items()}
    torch = str(own[-1].get("torch") or "")
    protocol = {str(k): str(v) for k, v in raw["protocol"].items()}
    prints = Fingerprint(model_print(raw["model"]), machine_of(subject), raw["threads"], torch, protocol)
    facts = {**own[-1], "source": raw["source"]}
    newest = max(str(run["started"]) for run in own)
    return Known(raw["warrant"], raw["clocked"], _verdicts(raw["verdicts"]), figures, prints, facts, newest, len(own))


def _figure(raw: Mapping[str, Any]) -> KnownFigure:
    leaves = {place: _leaf(leaf) for place, leaf in by_place(raw["leaves"]).items()}
    return KnownFigure(_verdicts(raw["verdicts"]), leaves)


def _verdicts(raw: Any) -> frozenset[str]:
    """The verdicts that the runs came to; context has the empty one."""
    if not isinstance(raw, list) or not set(map(str, raw)) <= _VERDICTS:
        raise Damaged(f"{shown(raw)} is no list of verdicts")
    return frozenset(map(str, raw))


def _leaf(raw: Any) -> KnownLeaf:
    if isinstance(raw, dict):
        repeats = tuple(float(value) for value in raw["repeats"])
        if not repeats or not all(map(math.isfinite, repeats)):
            raise Damaged("repeats are not one or more numbers")
        return KnownLeaf(Leaf(middle(repeats), finite(raw["low"]), finite(raw["high"])), repeats)
    if isinstance(raw, list):
        value, low, high = raw
        return KnownLeaf(Leaf(value, finite(low), finite(high)))
    plain: Plain = raw
    return KnownLeaf(Leaf(plain))
