"""A part: what one run left, with everything unsound taken out and named. Two parts of equal content are one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports.merge.soundness import check_record
from reports.merge.strict import Damaged, check_values, shown
from reports.names import is_safe_id
from reports.records import SCHEMA, Record
from reports.subject_key import machine_class, subject_key

Damage = tuple[str, str]  # what is damaged, and how; both printable and short


@dataclass(frozen=True)
class Part:
    """One run. `collected` is None where it did not say what it was about to test; `empty` says why nothing is here."""

    run: Mapping[str, Any]
    model: Mapping[str, Any] | None
    collected: tuple[str, ...] | None
    records: Mapping[str, Record]
    damage: tuple[Damage, ...] = ()
    finished: bool = True
    cuda_benchmarks: int = 0
    empty: str = ""

    def as_json(self) -> dict[str, Any]:
        """The part as it is stored and digested."""
        return {
            "schema": SCHEMA, "run": dict(self.run), "model": self.model and dict(self.model),
            "collected": None if self.collected is None else list(self.collected), "records": dict(self.records),
            "damage": [list(found) for found in self.damage], "finished": self.finished,
            "cuda_benchmarks": self.cuda_benchmarks, "empty": self.empty,
        }  # fmt: skip

    @cached_property
    def digest(self) -> str:
        """The name of this content."""
        return hashlib.sha256(canonical(self.as_json()).encode()).hexdigest()

    @cached_property
    def started(self) -> str:
        """When the run started, ISO 8601; empty where it does not say."""
        return str(self.run.get("started") or "")

    @cached_property
    def own_machine(self) -> str | None:
        """The machine class of the process that wrote the evidence."""
        return machine_class(self.run.get("machine"))

    def subject_of(self, record: Record) -> str:
        """Where a record belongs: on the machine that it names itself (a remote worker's), else on the run's."""
        own, run = record.get("model"), self.model  # the run's says more: a claim that was skipped loaded nothing
        model = run if own is None or (run is not None and own["slug"] == run["slug"]) else own
        return subject_key(model, record.get("machine") or self.own_machine)

    @cached_property
    def subjects(self) -> frozenset[str]:
        """The columns that this run reached; one of its own where it reached none."""
        reached = frozenset(self.subject_of(r) for r in self.records.values() if r["outcome"] != "pending")
        return reached or frozenset({subject_key(self.model, self.own_machine)})

    def machines(self) -> list[Mapping[str, Any]]:
        """The machine facts that the run and its workers recorded."""
        return [m for m in (facts.get("machine") for facts in [self.run, *self.workers]) if isinstance(m, Mapping)]

    @cached_property
    def workers(self) -> list[Mapping[str, Any]]:
        """What each worker process of a distributed run said of itself."""
        found = self.run.get("workers")
        return [w for w in found.values() if isinstance(w, Mapping)] if isinstance(found, Mapping) else []


def canonical(value: object) -> str:
    """One text for one JSON value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def part_of(raw: Mapping[str, Any], damage: Iterable[Damage] = ()) -> Part:
    """A part from whatever was found; what is unsound in it becomes damage. Raises nothing on content."""
    found = {(shown(what), shown(how)) for what, how in [*damage, *_told(raw.get("damage"))]}
    run = _of_type(raw, "run", Mapping, {}, found)
    model = _of_type(raw, "model", Mapping, None, found)
    if model is not None and not isinstance(model.get("slug"), str):
        found.add(("model", "without a slug"))
        model = None
    records = _sound(_of_type(raw, "records", Mapping, {}, found), found)
    collected = _collected(raw.get("collected"), found)
    num_cuda = raw["cuda_benchmarks"] if type(raw.get("cuda_benchmarks")) is int else 0
    something = records or found or collected or num_cuda  # what holds something is not empty, whatever it says
    return Part(
        run, model or model_of(records.values()), collected, records, tuple(sorted(found)),
        finished=raw.get("finished") is True, cuda_benchmarks=num_cuda,
        empty="" if something else shown(raw.get("empty")),
    )  # fmt: skip


def model_of(records: Iterable[Record]) -> Mapping[str, Any] | None:
    """The model that a run's records name; one that was loaded says more than one that was not."""
    models = [record["model"] for record in records if record.get("model")]
    return max(models, key=lambda m: (m.get("parameters") is not None, canonical(m)), default=None)


def _told(raw: object) -> list[Damage]:
    pairs = raw if isinstance(raw, list) else []
    return [(str(p[0]), str(p[1])) for p in pairs if isinstance(p, list) and len(p) == 2]


def _of_type(raw: Mapping[str, Any], field: str, kind: Any, otherwise: Any, damage: set[Damage]) -> Any:
    value = raw.get(field)
    if value is None or isinstance(value, kind):
        return otherwise if value is None else value
    damage.add((field, f"a {type(value).__name__} instead of an object"))
    return otherwise


def _sound(records: Mapping[str, Any], damage: set[Damage]) -> dict[str, Record]:
    sound = {}
    for name in sorted(records):
        try:
            check_values(records[name])
            check_record(name, records[name])
        except Damaged as fault:
            damage.add((shown(name), shown(fault)))
        else:
            sound[name] = records[name]
    return sound


def _collected(raw: object, damage: set[Damage]) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, list):
        damage.add(("collected", f"a {type(raw).__name__} instead of a list"))
        return None
    bad = [name for name in raw if not is_safe_id(name)]
    if bad:
        damage.add(("collected", f"{len(bad)} ids that are none, such as {shown(bad[0])!r}"))
    return tuple(sorted({name for name in raw if is_safe_id(name)}))
