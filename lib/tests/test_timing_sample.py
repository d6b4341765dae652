"""One sample on a scripted machine: which passes count, and what the reference beside it says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from lib.tests.scripted_machine import WARM_UP, ScriptedMachine, never
from lib.timing.sample import REFERENCE_AT_MOST, REFERENCE_GOOD, REFERENCE_TRIES, Pass, Sample, Sampler, passes_of

BEST_S = 1.0


def sampler(machine: ScriptedMachine, reference: Callable[[int], float]) -> Sampler:
    return Sampler(machine, machine.action("reference", reference), 1, lambda: machine.waiting, lambda: machine.now)


def passed(sampler: Sampler, action: Callable[[], object], best_s: float = BEST_S) -> Pass:
    return sampler.take(action, sampler.reference_seconds(best_s))


@pytest.mark.parametrize(("seconds", "passes"), [(0.05, 2), (0.15, 2), (0.25, 2), (0.45, 1), (2.0, 1)])
def test_the_fastest_of_a_few_passes_counts(seconds: float, passes: int) -> None:
    """One pass of each round takes half as long again: it is in nobody's time, unless it is the only one."""
    machine = ScriptedMachine()
    cold = machine.action(
        "a", lambda call: seconds * (1.5 if call >= WARM_UP and (call - WARM_UP) % passes == 0 else 1)
    )
    rounds = machine.rounds({"a": cold}).until(never, 20)
    assert rounds.quiet_seconds("a") == pytest.approx([seconds * (1.5 if passes == 1 else 1)] * len(rounds))
    assert machine.log.count("a") == WARM_UP + passes * len(rounds)


def test_the_passes_of_a_round_come_in_turns() -> None:
    """Short actions alternate, the long one comes once among the first; each turn has its own order."""
    machine = ScriptedMachine()
    seconds = {"a": 0.1, "b": 0.1, "long": 2.0}
    actions = {name: machine.action(name, lambda _, s=s: s) for name, s in seconds.items()}
    rounds = machine.rounds(actions, warm_up=1)
    rounds.until(lambda: len(rounds) >= 9, 1000)
    ran = [name for name in machine.log[4:] if name != "reference"]
    turns = [ran[i : i + 5] for i in range(0, len(ran), 5)]
    assert all(set(turn[:3]) == {"a", "b", "long"} and {*turn[3:]} == {"a", "b"} for turn in turns)
    assert len({tuple(turn) for turn in turns}) > 1


def test_one_action_after_the_other_would_be_bent_by_slow_seconds() -> None:
    """The wrong variant: four passes of one, then of the other, while every other second is slow for everything."""
    chance, count = random.Random(0), 100  # noqa: S311 (noise, not a secret)
    slow = [chance.random() < 0.5 for _ in range(1000)]
    machine = ScriptedMachine()
    actions = {name: machine.action(name, lambda _: 0.15 * (1 + slow[int(machine.now)])) for name in "ab"}
    fastest = [min(machine.seconds(actions[name]) for _ in range(4)) for _ in range(count) for name in "ab"]
    reference = machine.action("reference", lambda _: 0.01)
    rounds = machine.rounds(actions, reference, passes=dict.fromkeys("ab", 4))
    rounds.until(lambda: len(rounds) >= count, math.inf)
    blocks, turns = zip(fastest[::2], fastest[1::2], strict=True), zip(*map(rounds.quiet_seconds, "ab"), strict=True)
    bent = [sum(a != pytest.approx(b) for a, b in pairs) for pairs in (blocks, turns)]
    assert bent[0] > count / 5 and bent[1] < bent[0] / 2


def test_something_slow_in_every_pass_is_not_the_fastest_elsewhere() -> None:
    """The price of the fastest: what happens in some passes only is not seen. In all of them it is."""
    machine = ScriptedMachine()
    now_and_then = machine.action("a", lambda call: 0.1 * (1 if call % 2 else 3))
    always = machine.action("b", lambda _: 0.3)
    rounds = machine.rounds({"a": now_and_then, "b": always}).until(never, 20)
    assert rounds.seconds("a").value == pytest.approx(0.1) and rounds.seconds("b").value == pytest.approx(0.3)


def test_a_named_number_of_passes_replaces_the_suggested_one() -> None:
    machine = ScriptedMachine()
    actions = {name: machine.action(name, lambda _: 0.1) for name in ("named", "other")}
    rounds = machine.rounds(actions, warm_up=0, passes={"named": 2}).until(never, 20)
    assert (machine.log.count("named"), machine.log.count("other")) == (2 * len(rounds), len(rounds))


def test_a_long_action_is_not_warmed_up_and_runs_once_a_round() -> None:
    """Even if its first pass was fast: what is long is said, not found out by a pass that is thrown away."""
    machine = ScriptedMachine()
    actions = {name: machine.action(name, lambda _: 0.1) for name in ("long", "other")}
    rounds = machine.rounds(actions, warm_up=1, long=["long"]).until(never, 20)
    assert (machine.log.count("long"), machine.log.count("other")) == (len(rounds), 1 + 2 * len(rounds))


@pytest.mark.parametrize("wrong", [{"passes": {"b": 1}}, {"long": ["b"]}, {"passes": {"a": 0}}, {"fewest": 0}])
def test_counts_below_one_and_unknown_names_are_refused(wrong: dict[str, Any]) -> None:
    machine = ScriptedMachine()
    with pytest.raises(ValueError, match=r"not timed at all: \['b'\]|each at least 1"):
        machine.rounds({"a": machine.action("a", lambda _: 0.1)}, **wrong)


@pytest.mark.parametrize(
    ("reference", "tries", "quiet"),
    [
        (lambda _: 0.99 * REFERENCE_GOOD, 1, True),
        (lambda _: 0.99 * REFERENCE_AT_MOST, REFERENCE_TRIES, True),
        (lambda call: 3.0 if call < 2 else 1.0, 3, True),  # after a pause: cold caches, then as ever
        (lambda _: 1.1 * REFERENCE_AT_MOST, REFERENCE_TRIES, False),
        (lambda _: math.nan, REFERENCE_TRIES, False),
    ],
    ids=["steady", "slow but good enough", "after a pause", "slow throughout", "no time at all"],
)
def test_a_slow_reference_is_tried_again(reference: Callable[[int], float], tries: int, quiet: bool) -> None:
    machine = ScriptedMachine()
    taken = passed(sampler(machine, reference), machine.action("a", lambda _: 1.0))
    assert machine.log == ["reference"] * tries + ["a"]
    assert taken.is_quiet(BEST_S) == quiet


def test_one_try_would_call_a_pause_a_disturbance() -> None:
    """The wrong variant: a planted sleep left caches cold, every sample after it was dropped, and nobody saw it."""
    machine = ScriptedMachine()
    first = machine.seconds(machine.action("reference", lambda call: 3.0 if call < 2 else 1.0))
    assert first > REFERENCE_AT_MOST * BEST_S


def test_nothing_is_known_before_the_first_reference() -> None:
    machine = ScriptedMachine()
    taken = passed(sampler(machine, lambda _: 9.0), machine.action("a", lambda _: 1.0), math.inf)
    assert machine.log == ["reference", "a"] and taken.is_quiet(9.0)


def test_a_pass_that_the_clock_cannot_tell_is_dropped_and_the_others_count() -> None:
    passes = [Pass(math.nan, 0.0, 1.0), Pass(3.0, 0.0, 1.0), Pass(2.0, 0.5, 1.0), Pass(1.0, 0.0, 9.0)]
    assert Sample(passes).seconds(BEST_S) == 3.0  # one beside a waiting thread, one after a slow reference
    assert Sample(passes[:1]).seconds(BEST_S) is None


def test_the_last_reference_that_is_quiet_and_the_passes_of_no_time_at_all() -> None:
    assert Pass(1.0, 0.0, REFERENCE_AT_MOST).is_quiet(1.0)
    assert not Pass(1.0, 0.0, math.nextafter(REFERENCE_AT_MOST, 2)).is_quiet(1.0)
    assert passes_of(0.0) == passes_of(math.nan) == passes_of(1e9) == 1 < passes_of(1e-9)
