"""What may be compared with what.

- The same weights: digest, dtype and kind of device. A statement that needs no model is comparable everywhere.
- The same protocol. What varies by nature (how many rounds it took, what the machine's limits were) is none of it.
- What a clock measured: the same class of machine and the same threads, too.
- Bit for bit only on the same class of machine with the same torch: another instruction set or another release adds
  the same numbers up in another order. Elsewhere an exact figure is held to `TOLERANCE`, a sampled one to its interval.

Source, commit and versions are *not* part of it: their change is what drift should see. `changes` says what they were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reports.merge.parts import canonical
from reports.merge.strict import finite, shown
from reports.subject_key import UNKNOWN_MACHINE

# fp32 rounds to 2**-24. A sum of 4,864 products (the longest row here) walks some sqrt(4864) = 70 of these, and a pass
# goes through 168 matrices: sqrt(168) = 13 of those. 70 * 13 * 2**-24 = 5.4e-5, the next power of two. Measured
# beside it: passes of another shape move a lead between two logits by 2.3e-5 (speculative.greedy-exact, 2026-11-30).
TOLERANCE = 2.0**-14
# Below this, a figure says that something vanishes up to rounding (1e-15 in float64, up to 1e-6 in fp32: sixteen
# units in the last place of one): which residue is left depends on the order of a sum.
RESIDUE = 2.0**-20
VERSIONS = ("torch", "transformers", "numpy", "scipy", "python")
# rounds until an interval decided, passes in one, seconds, and rates of the machine: found by measuring, not chosen
_BY_NATURE = re.compile(r"(quiet_|passes_per_)?rounds?(_.*)?|seconds.*|.*_per_s")
_CLOCK = re.compile(r"quiet_rounds(_.*)?")  # only what was timed in interleaved rounds has one


@dataclass(frozen=True)
class Fingerprint:
    """Of one statement as one run measured it; `model` is (digest, dtype, kind of device), None where it needs none."""

    model: tuple[str, str, str] | None
    machine: str
    threads: int | None
    torch: str
    protocol: Mapping[str, str]


def fingerprint(record: Mapping[str, Any], torch: object, machine: str) -> Fingerprint:
    """The fingerprint of a record, measured on this class of machine with this torch."""
    threads = record.get("threads")
    facts = record.get("protocol") or {}
    chosen = {shown(name): canonical(fact) for name, fact in sorted(facts.items()) if not _BY_NATURE.fullmatch(name)}
    return Fingerprint(model_print(record.get("model")), machine, threads, shown(torch or ""), chosen)


def model_print(model: Mapping[str, Any] | None) -> tuple[str, str, str] | None:
    """Digest, dtype and kind of device."""
    if model is None:
        return None
    dtype, device = (shown(model.get(name) or "") for name in ("dtype", "device"))
    return shown(model.get("digest") or ""), dtype.removeprefix("torch."), device.partition(":")[0]


def is_clocked(record: Mapping[str, Any]) -> bool:
    """Whether a clock measured some of it: by its warrant, by what it needs, or by the rounds in its protocol."""
    rounds = any(_CLOCK.fullmatch(name) for name in record.get("protocol") or {})
    return record.get("warrant") == "timed" or "timing" in (record.get("needs") or []) or rounds


def difference(was: Fingerprint, now: Fingerprint, clocked: bool) -> str:
    """Why these cannot be compared, in words; empty when they can."""
    if was.model != now.model:
        return f"another model: {_model(was)} → {_model(now)}"
    if clocked and (was.machine != now.machine or UNKNOWN_MACHINE in {was.machine, now.machine}):
        return f"timed on another class of machine: {was.machine} → {now.machine}"
    if clocked and was.threads != now.threads:
        return f"timed with other threads: {was.threads} → {now.threads}"
    other = [name for name in {**was.protocol, **now.protocol} if was.protocol.get(name) != now.protocol.get(name)]
    return f"another protocol: {', '.join(_changed(was, now, name) for name in other[:3])}" if other else ""


def same_bits(was: Fingerprint, now: Fingerprint) -> bool:
    """Whether float kernels must give the same bits."""
    return was.machine == now.machine != UNKNOWN_MACHINE and was.torch == now.torch


def close(was: float, now: float) -> bool:
    """Whether two figures are equal up to the rounding of fp32 sums in another order."""
    return abs(was - now) <= TOLERANCE * max(abs(was), abs(now)) + RESIDUE


def changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What a flag's reader asks first: which versions, and was it the code that changed? Facts of the two records."""
    moved = [f"{n} {was[n]} → {shown(now[n])}" for n in VERSIONS if was.get(n) and now.get(n) and was[n] != now[n]]
    if was.get("source") and now.get("source"):
        moved.append("source unchanged" if was["source"] == now["source"] else "source changed")
    if was.get("commit") != now.get("commit"):
        moved.append(f"commit {shown(was.get('commit'))} → {shown(now.get('commit'))}")
    return ", ".join(moved)


def speed(record: Mapping[str, Any]) -> dict[str, float]:
    """The machine's limits as this record found them, by name: what tells a slow night from a slow statement."""
    facts = record.get("protocol") or {}
    rates = {name: finite(facts.get(name)) for name in SPEEDS}
    return {name: rate for name, rate in rates.items() if rate is not None and rate > 0}


SPEEDS = ("read_gb_per_s", "fp32_gflop_per_s")


def _model(found: Fingerprint) -> str:
    return "none" if found.model is None else f"{found.model[0][:12]} {found.model[1]} {found.model[2]}"


def _changed(was: Fingerprint, now: Fingerprint, name: str) -> str:
    return f"{name} {shown(was.protocol.get(name, 'absent'))} → {shown(now.protocol.get(name, 'absent'))}"
