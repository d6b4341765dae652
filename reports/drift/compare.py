"""Tonight against the baseline: a row for every statement and subject that either of them has, and its document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reports.drift.baseline import Baseline, Known
from reports.drift.clocks import Clocks, other_speed
from reports.drift.evidence import DECIDED, Evidence, Reading
from reports.drift.fingerprint import changes, difference, same_bits, speed
from reports.drift.history import Nights
from reports.drift.rerun import Rerun, usable
from reports.drift.rows import COMPARED, FINDINGS, FLAGS, Row, Status, worst
from reports.drift.rules import Judge, Plain, compare_figures, flipped
from reports.merge.strict import shown
from reports.subject_key import machine_of

SCHEMA = 1
# The claim that is open most often was so in 3 of ten quiet repeats (2026-11-30): 30 nights have a run of seven by
# chance with 30 * 0.3**7 = 0.7 %. After that it is no accident that nobody looks any more.
SILENT_NIGHTS = 7

Rows = dict[str, dict[str, Row]]  # claim id → subject → row


@dataclass
class Comparison:
    """The rows of a comparison, and what they come to."""

    rows: Rows = field(default_factory=dict)

    def having(self, statuses: Collection[Status]) -> list[tuple[str, str, Row]]:
        """The rows with one of these statuses: id, subject, row."""
        return [(k, s, r) for k, row in self.rows.items() for s, r in row.items() if r.status in statuses]

    @property
    def compared_anything(self) -> bool:
        """Whether any statement at all was compared."""
        return bool(self.having(COMPARED))

    @property
    def has_findings(self) -> bool:
        """Whether there is something to look at: then the night is not green."""
        return bool(self.having(FINDINGS)) or not self.compared_anything

    def counts(self) -> dict[str, int]:
        """Rows by status, those that occur."""
        found = Counter(row.status for cells in self.rows.values() for row in cells.values())
        return {status.value: found[status] for status in Status if found[status]}

    def as_json(self, baseline: str, evidence: str) -> dict[str, Any]:
        """The drift document; baseline and evidence are names, not paths."""
        rows = {k: {s: row.as_json() for s, row in sorted(cells.items())} for k, cells in sorted(self.rows.items())}
        return {
            "schema": SCHEMA, "baseline": baseline, "evidence": evidence, "rows": rows, "counts": self.counts(),
            "compared": self.compared_anything,
        }  # fmt: skip


@dataclass(frozen=True)
class Comparer:
    """What one comparison knows: the baselines, the nights by subject, and whether only a part was run."""

    baselines: Mapping[str, Baseline]
    nights: Mapping[str, Nights] = field(default_factory=dict)
    part: bool = False
    unfit: Mapping[str, str] = field(default_factory=dict)  # by subject: why this run says nothing of tonight

    def compare(self, evidence: Evidence, rerun: Rerun | None = None, here: str = "") -> Comparison:
        """Compare all; what a clock suspects is read again on this class of machine, if it is `here` and can be."""
        found = Comparison(self._rows(evidence, {}))
        odd = [(k, s) for k, s, row in found.having(set(Status)) if row.odd and machine_of(s) == here]
        tests = [evidence.readings[s][k].record.get("test") for k, s in odd]
        if rerun and any(map(usable, tests)):
            again = rerun([str(test) for test in tests if usable(test)])
            found = Comparison(self._rows(evidence, {key: _again(evidence, key, again) for key in odd}))
        self._name_silent(found, evidence)
        return found

    def _rows(self, evidence: Evidence, again: Mapping[tuple[str, str], Sequence[Reading]]) -> Rows:
        rows: Rows = {}
        for subject in evidence.subjects:
            slow = self._other_speed(evidence, subject)
            readings = evidence.readings.get(subject, {})
            for claim_id, reading in sorted(readings.items()):
                row = self._row(claim_id, reading, slow, again.get((claim_id, subject), ()))
                rows.setdefault(claim_id, {})[subject] = row
            for claim_id, how in self._absent(evidence, subject):
                rows.setdefault(claim_id, {})[subject] = Row(Status.MISSING, how)
        for (subject, what), how in evidence.damage.items():
            rows.setdefault(what, {})[subject] = Row(Status.DAMAGED, how)
        return dict(sorted(rows.items()))

    def _absent(self, evidence: Evidence, subject: str) -> list[tuple[str, str]]:
        """What this subject should have and has not. With `part`, only what the run itself was about to test."""
        lost = {what: how for (where, what), how in evidence.lost.items() if where == subject}
        own = self._nearest(subject)
        known = set() if own is None or self.part else set(own.claims)
        there = set(evidence.readings.get(subject, {})) | {what for _, what in evidence.damage}
        words = "in the baseline, not in the run"
        return sorted({**dict.fromkeys(known - there, words), **lost}.items())

    def _nearest(self, subject: str) -> Baseline | None:
        """The subject's own baseline, else one of the same model, else any: what a whole run should have."""
        names = self._by_nearness(subject)
        return self.baselines[names[0]] if names else None

    def _by_nearness(self, subject: str) -> list[str]:
        return sorted(self.baselines, key=lambda s: (s != subject, _model(s) != _model(subject), s))

    def _row(self, claim_id: str, now: Reading, slow: str, again: Sequence[Reading]) -> Row:
        if now.record["outcome"] == "error":
            return Row(Status.DAMAGED, f"an error: {shown(now.record.get('error'))}")
        known, why = self._known(claim_id, now)
        if known is None:
            return Row(Status.UNKNOWN, why)
        if now.verdict not in DECIDED and (now.verdict != "UNRESOLVED" or now.clocked):
            return Row(Status.UNMEASURED, f"{now.verdict}: {shown(now.record.get('reason'))}")
        apart = why or self.unfit.get(now.subject) or (slow if now.clocked else "") or _older(known, now)
        if apart:
            return Row(Status.INCOMPARABLE, apart)
        if known.verdicts <= {"NOT_MEASURED"}:
            return Row(Status.UNKNOWN, f"{now.verdict}, and the baseline never measured it: accept it")
        return self._compared(claim_id, known, now, again)

    def _known(self, claim_id: str, now: Reading) -> tuple[Known | None, str]:
        """The entry to compare with, and why it cannot be: this subject's own, or else of any that compares."""
        names = self._by_nearness(now.subject)
        entries = [self.baselines[s].claims[claim_id] for s in names if claim_id in self.baselines[s].claims]
        reasons = [difference(entry.fingerprint, now.fingerprint, entry.clocked or now.clocked) for entry in entries]
        for entry, why in zip(entries, reasons, strict=True):
            if not why:
                return entry, ""
        if entries:
            return entries[0], reasons[0]
        return None, "not in the baseline" if self.baselines else "no baseline yet"

    def _compared(self, claim_id: str, known: Known, now: Reading, again: Sequence[Reading]) -> Row:
        plain = Plain(known.warrant, same_bits(known.fingerprint, now.fingerprint))
        nights = self.nights.get(now.subject, Nights())
        noisy = known.clocked or any(leaf.repeats for f in known.figures.values() for leaf in f.leaves.values())
        clocks = Clocks(known, lambda name: nights.readings(claim_id, name, known.newest), again, plain, now.clocked)
        judge: Judge = clocks if noisy else plain
        figures = compare_figures(known.figures, now.figures, judge)
        flip = flipped(known.verdicts, now.verdict)
        statuses = [row.status for row in figures.values()]
        statuses += [Status.UNMEASURED] * (now.verdict not in DECIDED)
        if flip:
            statuses.append(judge.flip("", now.verdict))
        row = Row(worst(statuses), "", figures, clocks.odd or Status.SUSPECTED in statuses, dict(clocks.readings))
        return replace(row, detail=_detail(row, flip, known, now))

    def _other_speed(self, evidence: Evidence, subject: str) -> str:
        own = self.baselines.get(subject)
        rates: dict[str, list[float]] = {}
        for reading in evidence.readings.get(subject, {}).values():
            for name, rate in speed(reading.record).items():
                rates.setdefault(name, []).append(rate)
        return "" if own is None else other_speed(own.speed, rates)

    def _name_silent(self, found: Comparison, evidence: Evidence) -> None:
        """Statements without a verdict that the baseline has one for. A clock may be silent for less than a week."""
        for claim_id, subject, row in found.having({Status.UNMEASURED}):
            reading = evidence.readings[subject][claim_id]
            known = self._known(claim_id, reading)[0]
            if reading.verdict in DECIDED or known is None or not known.verdicts & DECIDED:
                continue
            nights = self.nights.get(subject, Nights()).silent(claim_id) + 1
            if nights >= SILENT_NIGHTS or not (known.clocked or reading.clocked):
                words = f"no verdict for {nights} nights running" if nights > 1 else "no verdict tonight"
                found.rows[claim_id][subject] = replace(row, status=Status.SILENT, detail=f"{words}; {row.detail}")


def _again(evidence: Evidence, key: tuple[str, str], again: Sequence[Evidence]) -> list[Reading]:
    """What the re-runs say of a statement, as far as they compare with tonight and came to a verdict."""
    claim_id, subject = key
    tonight = evidence.readings[subject][claim_id]
    found = [run.readings[subject][claim_id] for run in again if claim_id in run.readings.get(subject, {})]
    return [
        reading for reading in found
        if reading.verdict in DECIDED and not difference(tonight.fingerprint, reading.fingerprint, True)
    ]  # fmt: skip


def _older(known: Known, now: Reading) -> str:
    """Yesterday's evidence handed in again says nothing of tonight."""
    started = str(now.run.get("started") or known.newest)
    return f"measured at {shown(started)}, before the baseline was ({known.newest})" if started < known.newest else ""


def _detail(row: Row, flip: str, known: Known, now: Reading) -> str:
    """Why the row has its status; of a flag, what has changed since the baseline."""
    told = [flip] * bool(flip)
    alike = {name: figure for name, figure in row.figures.items() if figure.status is row.status}
    told += [f"{name}: {figure.detail}" for name, figure in alike.items() if figure.detail]
    words = "; ".join(told[:3]) + (f"; {len(told) - 3} more figures" if len(told) > 3 else "")
    if row.status is Status.UNMEASURED and not words:
        words = f"{now.verdict}: {shown(now.record.get('reason'))}"
    since = changes(known.facts, now.facts) if row.status in FLAGS | {Status.SUSPECTED} else ""
    return f"{words} ({since})" if since else words


def _model(subject: str) -> str:
    return subject.partition("@")[0]
