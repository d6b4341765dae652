"""Runs that somebody accepts → a baseline. Several runs are repeats: where they differ, that is the noise."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.drift.baseline import SCHEMA, KnownLeaf, by_place, leaf_json, packed
from reports.drift.evidence import Reading, evidence_of
from reports.drift.files import Refused
from reports.drift.fingerprint import SPEEDS, VERSIONS, difference, same_bits, speed
from reports.drift.leaves import Leaf, label
from reports.merge.parts import Part
from reports.merge.shards import read_folder
from reports.merge.strict import shown

_FACTS = ("started", "commit", "dirty", *VERSIONS, "threads")
_DIGITS = 6  # of a repeat: its noise is a percent
_STAMP = 19  # characters of an ISO time up to its seconds


@dataclass(frozen=True)
class Accepted:
    """What the baseline of a subject would be, and what that changes, in lines."""

    subject: str
    document: dict[str, Any]
    said: tuple[str, ...]
    changed: tuple[str, ...]


def sound_parts(folders: Sequence[Path], allow_dirty: bool) -> list[Part]:
    """The runs in these folders, each once. Raises Refused for what must not become a baseline."""
    parts = {part.digest: part for folder in folders for part in read_folder(folder)}
    for part in parts.values():
        _check(part, allow_dirty)
    return sorted(parts.values(), key=lambda part: part.started)


def accept(parts: Sequence[Part], old: Mapping[str, Any] | None, only: Collection[str], prune: bool) -> Accepted:
    """Put runs of one subject in the place of what the baseline says of their statements.

    old: the baseline's file as it is. only: ids to accept, all when empty. prune: drop statements that no run has.
    Raises Refused for several subjects, for runs that are no repeats of each other, and when nothing is left.
    """
    subject = _one_subject(parts)
    runs = [evidence_of([part]).readings.get(subject, {}) for part in parts]
    ids = sorted({claim_id for run in runs for claim_id in run if not only or claim_id in only})
    unknown = sorted(set(only) - set(ids))
    if unknown or not ids:
        raise Refused(f"not in the evidence: {', '.join(map(shown, unknown)) or 'any statement with a record'}")
    before = dict((old or {}).get("claims", {}))
    kept = list((old or {}).get("runs", []))
    said: list[str] = []
    entries = {claim_id: _entry(claim_id, [run[claim_id] for run in runs if claim_id in run], said) for claim_id in ids}
    fresh = {claim_id: entry for claim_id, entry in entries.items() if entry}
    stale = set() if not prune else set(before) - {claim_id for run in runs for claim_id in run}
    claims = _renumbered({k: v for k, v in before.items() if k not in stale}, kept) | fresh
    said += _left_alone(before, fresh, stale)
    return Accepted(subject, _document(subject, claims, parts, old), tuple(said), tuple(_changes(before, claims)))


def _check(part: Part, allow_dirty: bool) -> None:
    run = part.run
    name = f"the run of {shown(part.started) or 'no date'}"
    if part.empty:
        raise Refused(part.empty)
    if part.damage:
        raise Refused(f"{name} is damaged: {'; '.join(f'{what}: {how}' for what, how in part.damage[:3])}")
    if not part.finished or run.get("interrupted"):
        raise Refused(f"{name} was {'interrupted' if part.finished else 'killed'}")
    if run.get("dirty") is not False and not allow_dirty:
        raise Refused(f"{name} had uncommitted changes, or does not say: --allow-dirty to accept it all the same")
    if not part.started:
        raise Refused("a run that does not say when it started")


def _one_subject(parts: Sequence[Part]) -> str:
    subjects = sorted({subject for part in parts for subject in part.subjects})
    if len(subjects) != 1:
        raise Refused(f"several subjects mixed: {', '.join(subjects)}")
    return subjects[0]


def _entry(claim_id: str, readings: Sequence[Reading], said: list[str]) -> dict[str, Any] | None:
    """A statement of the baseline; None for one of which there is nothing to accept."""
    if any(r.record["outcome"] == "error" for r in readings):
        said.append(f"left out, its test raised: {claim_id}")
        return None
    measured = [r for r in readings if r.verdict != "NOT_MEASURED"] or list(readings[-1:])
    last = measured[-1]
    for other in measured[:-1]:
        why = difference(other.fingerprint, last.fingerprint, last.clocked)
        if why or not same_bits(other.fingerprint, last.fingerprint):
            raise Refused(f"{claim_id}: these are no repeats of each other: {why or 'another torch, or no machine'}")
    prints, model = last.fingerprint, last.record.get("model")
    return {
        "warrant": last.record["warrant"], "clocked": last.clocked, "threads": prints.threads,
        "verdicts": sorted({r.verdict for r in measured}), "source": last.record.get("source"),
        "protocol": dict(prints.protocol), "runs": [r.run["started"] for r in measured],
        "model": model and {name: model.get(name) for name in ("digest", "dtype", "device")},
        "figures": dict(_figures(claim_id, measured, said)),
    }  # fmt: skip


def _figures(claim_id: str, readings: Sequence[Reading], said: list[str]) -> Iterator[tuple[str, Any]]:
    for name in readings[-1].figures:
        found = [r.figures[name] for r in readings if name in r.figures]
        places = [place for place in found[-1].leaves if all(place in figure.leaves for figure in found)]
        leaves = {place: _leaf([figure.leaves[place] for figure in found]) for place in places}
        lost = sorted(label(name, place) for place, leaf in leaves.items() if leaf is None)
        if len(found) < len(readings) or lost:
            said.append(f"left out of {claim_id}, not the same in all runs: {', '.join(lost or [name])}")
        noisy = [label(name, place) for place, leaf in leaves.items() if leaf and leaf.repeats]
        if noisy and not readings[-1].clocked:
            said.append(f"no clock measured it, and yet it varies from run to run: {claim_id} {', '.join(noisy[:3])}")
        kept = {place: leaf_json(leaf) for place, leaf in leaves.items() if leaf}
        if len(found) == len(readings):
            yield name, {"verdicts": sorted({f.verdict for f in found if f.verdict}), "leaves": packed(kept)}


def _leaf(found: Sequence[Leaf]) -> KnownLeaf | None:
    """One leaf of all runs: itself, or its repeats; None for words that differ, and for what is open in all runs."""
    if all(leaf == found[0] for leaf in found):
        return KnownLeaf(found[0])
    closed = [leaf for leaf in found if (leaf.low is None) == (leaf.high is None)]
    numbers = [leaf.number for leaf in closed if leaf.number is not None]
    if not numbers or len(numbers) < len(closed):
        return None
    lows, highs = (
        [end for end in ends if end is not None] for ends in ([x.low for x in closed], [x.high for x in closed])
    )
    around = Leaf(numbers[-1], _short(min(lows, default=None)), _short(max(highs, default=None)))
    if len(set(numbers)) == 1:
        return KnownLeaf(Leaf(closed[-1].value, around.low, around.high))
    return KnownLeaf(around, tuple(float(f"{number:.{_DIGITS}g}") for number in numbers))


def _short(end: float | None) -> float | None:
    return None if end is None else float(f"{end:.{_DIGITS}g}")


def _renumbered(claims: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The claims of a file with the start of their runs in the place of the runs' places."""
    return {key: entry | {"runs": [runs[place]["started"] for place in entry["runs"]]} for key, entry in claims.items()}


def _document(
    subject: str, claims: Mapping[str, Any], parts: Sequence[Part], old: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The file: only runs that a statement still rests on stay in it."""
    own = {part.started: {name: part.run.get(name) for name in _FACTS} for part in parts}
    known = {facts["started"]: facts for facts in (old or {}).get("runs", [])} | own
    used = sorted({started for entry in claims.values() for started in entry["runs"]})
    places = {started: place for place, started in enumerate(used)}
    numbered = {key: entry | {"runs": [places[s] for s in entry["runs"]]} for key, entry in claims.items()}
    rates = _speeds(parts) or (old or {}).get("speed", {})
    return {"schema": SCHEMA, "subject": subject, "runs": [known[s] for s in used], "speed": rates, "claims": numbered}


def _speeds(parts: Sequence[Part]) -> dict[str, list[float]]:
    """The machine's limits, one of each run that measured them."""
    found: dict[str, list[float]] = {}
    for part in parts:
        rates: dict[str, float] = {}
        for record in part.records.values():
            rates = speed(record) | rates
        for name in rates.keys() & set(SPEEDS):
            found.setdefault(name, []).append(rates[name])
    return {name: rates for name, rates in found.items() if len(rates) > 1}


def _left_alone(before: Mapping[str, Any], fresh: Mapping[str, Any], stale: Collection[str]) -> Iterator[str]:
    rest = sorted(set(before) - set(fresh) - set(stale))
    if rest:
        yield f"a part of the baseline only: {len(fresh)} statements accepted, {len(rest)} left as they were"
    if stale:
        yield f"dropped, in no run: {', '.join(sorted(stale))}"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What changes, statement by statement and figure by figure: before → after."""
    for claim_id in sorted(before.keys() | after.keys()):
        old, new = before.get(claim_id), after.get(claim_id)
        if old is None or new is None:
            yield f"{claim_id}: {'new' if old is None else 'dropped'}"
            continue
        if old["verdicts"] != new["verdicts"]:
            yield f"{claim_id}: {' or '.join(old['verdicts'])} → {' or '.join(new['verdicts'])}"
        for name in sorted(old["figures"].keys() | new["figures"].keys()):
            yield from _figure_changes(f"{claim_id} {name}", old["figures"].get(name), new["figures"].get(name))


def _figure_changes(what: str, old: Any, new: Any) -> Iterator[str]:
    if old is None or new is None:
        yield f"{what}: {'new' if old is None else 'dropped'}"
        return
    was, now = by_place(old["leaves"]), by_place(new["leaves"])
    for place in [place for place in {**was, **now} if was.get(place) != now.get(place)]:
        yield f"{label(what, place)}: {_shown(was.get(place))} → {_shown(now.get(place))}"


def _shown(leaf: Any) -> str:
    if isinstance(leaf, dict):
        return f"{sum(leaf['repeats']) / len(leaf['repeats']):.6g} ({len(leaf['repeats'])} repeats)"
    if isinstance(leaf, list):
        return f"{leaf[0]} [{leaf[1]}, {leaf[2]}]"
    return "absent" if leaf is None else shown(leaf)
