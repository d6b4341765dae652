"""Interleaved rounds on a scripted machine: what is paired, dropped, decided and ended. No real time passes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest

from lib.intervals import Estimate
from lib.tests.scripted_machine import WARM_UP, ScriptedMachine, never, outside_by
from lib.timing.rounds import Rounds
from lib.timing.sample import WAITED_AT_MOST

LOOKS = [4, 6, 9, 14, 21, 31]
FOREVER = math.inf
# A ratio of two sums of binary fractions, each rounded some dozens of times at 2^-53 of at most 10^4 seconds.
CLOCK_ROUNDING = 1e-9


def after(rounds: Rounds, count: int) -> Callable[[], bool]:
    return lambda: len(rounds) >= count


def pair(machine: ScriptedMachine, a: float = 3.0, b: float = 2.0) -> Rounds:
    return machine.rounds({"a": machine.action("a", lambda _: a), "b": machine.action("b", lambda _: b)})


# order and pairing


def test_every_action_once_a_round_in_an_order_drawn_anew() -> None:
    machine = ScriptedMachine()
    rounds = machine.rounds({name: machine.action(name, lambda _: 1.0) for name in "abc"})
    rounds.until(after(rounds, 21), FOREVER)
    ran = [name for name in machine.log[4 * WARM_UP :] if name != "reference"]
    orders = ["".join(ran[i : i + 3]) for i in range(0, len(ran), 3)]
    assert all(sorted(order) == list("abc") for order in orders)
    assert len(set(orders)) == 6 and {order[0] for order in orders} == set("abc")


def test_the_reference_runs_right_before_every_sample() -> None:
    machine = ScriptedMachine()
    pair(machine).until(never, 50)
    sampled = machine.log[3 * WARM_UP :]
    assert set(sampled[::2]) == {"reference"} and set(sampled[1::2]) == {"a", "b"}


def drifting(machine: ScriptedMachine, nominal: float) -> Callable[[int], float]:
    """Everything takes a half longer by the time that 300 seconds are over."""
    return lambda _: nominal * (1 + 0.5 * min(machine.now / 300, 1))


def test_a_ratio_within_rounds_cancels_a_drift_that_bends_separate_means() -> None:
    machine = ScriptedMachine()
    actions = {"a": machine.action("a", drifting(machine, 3.6)), "b": machine.action("b", drifting(machine, 3.0))}
    rounds = machine.rounds(actions, machine.action("reference", drifting(machine, 0.1)))
    rounds.until(after(rounds, 31), FOREVER)
    ratio = rounds.ratio("a", over="b")
    assert ratio.contains(1.2) and ratio.high / ratio.low < 1.02


def test_one_after_the_other_would_be_bent_by_the_drift() -> None:
    """The wrong variant: all of one, then all of the other, and the ratio of their means."""
    machine = ScriptedMachine()
    actions = [machine.action("a", drifting(machine, 3.6)), machine.action("b", drifting(machine, 3.0))]
    a, b = (statistics.mean(machine.seconds(action) for _ in range(31)) for action in actions)
    assert abs(a / b / 1.2 - 1) > 0.1


def test_a_ratio_and_its_inverse_agree() -> None:
    rounds = pair(ScriptedMachine()).until(never, 100)
    assert rounds.ratio("a", over="b").value == pytest.approx(1 / rounds.ratio("b", over="a").value)
    assert rounds.seconds("a").value == pytest.approx(3.0)
    assert rounds.rate("a", 12.0).value == pytest.approx(12.0 / rounds.seconds("a").value)


# what is dropped


def sampled(
    a: Callable[[int], float] = lambda _: 3.0,
    share: Callable[[int], float] = lambda _: 0.0,
    reference: Callable[[int], float] = lambda _: 1.0,
    count: int = 9,
) -> Rounds:
    """Rounds of one action; the scripts count from the first sample, warm-up aside."""
    machine = ScriptedMachine()
    reference_run = machine.action("reference", lambda call: reference(call - WARM_UP))
    action = machine.action("a", lambda call: a(call - WARM_UP), lambda call: share(call - WARM_UP))
    rounds = machine.rounds({"a": action}, reference_run)
    return rounds.until(after(rounds, count), FOREVER)


def test_samples_beside_waiting_are_dropped() -> None:
    rounds = sampled(share=lambda i: 0.4 if i in {2, 5} else WAITED_AT_MOST / 2)
    assert rounds.quiet("a") == [0, 1, 3, 4, 6, 7, 8]


def test_a_sample_is_not_judged_by_its_own_seconds() -> None:
    """An outlier that nobody else caused stays, and the same share of waiting counts alike in long and short ones."""
    assert sampled(a=lambda i: 300.0 if i == 4 else 3.0).quiet("a") == list(range(9))
    for seconds in (0.6, 1000.0):
        assert sampled(a=lambda _, s=seconds: s, share=lambda i: 0.2 * (i == 4)).quiet("a") == [0, 1, 2, 3, 5, 6, 7, 8]


def test_dropping_slow_samples_would_hide_a_real_tail() -> None:
    """The wrong variant, a cut at twice the fastest: it calls an action that is slow half of the time fast."""
    rounds = sampled(a=lambda i: 3.0 if i % 2 else 9.0, count=14)
    taken = rounds.quiet_seconds("a")
    cut = [seconds for seconds in taken if seconds <= 2 * min(taken)]
    assert statistics.median(cut) < 3.1 < rounds.seconds("a").value


def test_a_round_counts_for_a_pair_when_it_was_quiet_for_both() -> None:
    machine = ScriptedMachine()
    noisy = machine.action("a", lambda _: 3.0, lambda call: 0.5 * (call - WARM_UP == 1))
    rounds = machine.rounds({"a": noisy, "b": machine.action("b", lambda _: 2.0)})
    rounds.until(after(rounds, 4), FOREVER)
    assert rounds.quiet("b") == [0, 1, 2, 3] and rounds.quiet("a", "b") == [0, 2, 3]


class NoSense(ScriptedMachine):
    """A clock that is set back during every third sample of "a"."""

    def seconds(self, action: Callable[[], object]) -> float:
        right = super().seconds(action)
        return math.nan if self.log[-1] == "a" and self.log.count("a") % 3 == 0 else right


def test_durations_that_make_no_sense_are_dropped() -> None:
    rounds = pair(NoSense())
    rounds.until(after(rounds, 9), FOREVER)
    assert rounds.quiet("b") == list(range(9)) and len(rounds.quiet("a")) == 6
    assert rounds.ratio("a", over="b").value == pytest.approx(1.5)


def test_where_nobody_counts_the_waiting_the_reference_alone_judges() -> None:
    machine = ScriptedMachine()
    machine.waiting = None
    rounds = pair(machine)
    rounds.until(after(rounds, 9), FOREVER)
    assert rounds.quiet("a", "b") == list(range(9))


@pytest.mark.parametrize("readings", [[5.0, 4.0], [5.0, None], [None, 5.0]])
def test_a_thread_that_ends_during_a_sample_makes_its_waiting_unknown(readings: list[float | None]) -> None:
    """Its own count is gone from the later sum; a smaller or missing sum must not pass for a quiet machine."""
    machine = ScriptedMachine()
    script = iter(readings * 4)
    rounds = machine.rounds({"a": machine.action("a", lambda _: 1.0)}, waited=lambda: next(script))
    rounds.until(after(rounds, 4), FOREVER)
    assert rounds.quiet("a") == []


# when it stops


def test_too_few_quiet_rounds_decide_nothing() -> None:
    rounds = sampled(share=lambda i: 0.0 if i in {1, 4, 7} else 0.4, count=21)
    interval = rounds.seconds("a")
    assert (interval.low, interval.high) == (0, math.inf)
    assert Rounds({"a": never}, ScriptedMachine(), never, 1).ratio("a", over="a") == Estimate(1, 0, math.inf)


def test_a_machine_that_is_busy_throughout_decides_nothing() -> None:
    machine = ScriptedMachine()
    actions = {n: machine.action(n, lambda _, s=s: s, lambda _: 0.35) for n, s in (("a", 9.0), ("b", 2.0))}
    rounds = machine.rounds(actions)
    rounds.until(outside_by(rounds, 1.1), 2000)
    assert len(rounds) > LOOKS[-1] and rounds.ratio("a", over="b") == Estimate(1, 0, math.inf)
    assert rounds.facts()["quiet_rounds"] == 0


def test_looks_come_at_growing_counts() -> None:
    rounds, seen = pair(ScriptedMachine()), []

    def looked() -> bool:
        seen.append(len(rounds))
        return len(rounds) >= 31

    rounds.until(looked, FOREVER)
    assert seen == LOOKS == [n for n in seen if n == len(rounds) or n < 31]


def test_stops_at_the_first_look_that_decides() -> None:
    rounds = pair(ScriptedMachine())
    assert len(rounds.until(outside_by(rounds, 1.1), FOREVER)) == LOOKS[0]


def test_the_budget_ends_it_between_rounds() -> None:
    """Seven seconds a round: 50 are spent during the eighth, which is finished; a budget of nothing buys one round."""
    assert len(pair(ScriptedMachine()).until(never, 50)) == 8
    rounds = pair(ScriptedMachine()).until(never, 0)
    assert len(rounds) == 1 and rounds.ratio("a", over="b").high == math.inf


def test_a_second_until_extends_what_the_first_began() -> None:
    machine = ScriptedMachine()
    rounds = pair(machine)
    rounds.until(after(rounds, 9), FOREVER)
    kept, ran = list(rounds.samples["a"]), len(machine.log)
    assert len(rounds.until(after(rounds, 9), FOREVER)) == 9 and len(machine.log) == ran
    rounds.until(after(rounds, 14), FOREVER)
    assert rounds.samples["a"][:9] == kept and len(rounds) == 14
    assert machine.log.count("a") == WARM_UP + 14


def test_warm_up_comes_by_count_before_the_first_sample_and_once() -> None:
    machine = ScriptedMachine()
    rounds = pair(machine)
    rounds.until(never, 20)
    rounds.until(never, 20)
    assert machine.log[: 3 * WARM_UP] == ["a"] * WARM_UP + ["b"] * WARM_UP + ["reference"] * WARM_UP
    assert machine.log.count("a") == WARM_UP + len(rounds)


def test_without_warm_up_the_first_pass_would_be_a_sample() -> None:
    machine = ScriptedMachine()
    rounds = machine.rounds({"a": machine.action("a", lambda call: 50.0 if call < WARM_UP else 1.0)})
    rounds.until(after(rounds, 4), FOREVER)
    assert max(rounds.quiet_seconds("a")) == pytest.approx(1.0, abs=CLOCK_ROUNDING)


@pytest.mark.parametrize("failing", range(4))  # some of them with the other action's sample taken already
def test_an_action_that_fails_midway_shifts_no_pair(failing: int) -> None:
    """A GPU out of memory in one round: that round is gone, and later samples still meet their own round's partner."""
    machine = ScriptedMachine()

    def fails(call: int) -> float:
        if call == WARM_UP + failing:
            raise MemoryError("2 GiB")
        return 2.0

    rounds = machine.rounds({"a": machine.action("a", lambda _: 3.0), "b": machine.action("b", fails)})
    with pytest.raises(MemoryError):
        rounds.until(never, FOREVER)
    assert {len(column) for column in rounds.samples.values()} == {failing}
    rounds.until(after(rounds, 9), FOREVER)
    assert {len(column) for column in rounds.samples.values()} == {9}


def test_a_failed_warm_up_is_made_up_for() -> None:
    machine, broken = ScriptedMachine(), [True]

    def once(_: int) -> float:
        if broken.pop() if broken else False:
            raise MemoryError
        return 1.0

    rounds = machine.rounds({"a": machine.action("a", once)})
    with pytest.raises(MemoryError):
        rounds.until(never, FOREVER)
    rounds.until(never, 1)
    assert machine.log.count("a") == 1 + WARM_UP + len(rounds)


def test_nothing_to_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no actions"):
        ScriptedMachine().rounds({})


def probed(machine: ScriptedMachine, share: Callable[[int], float]) -> Rounds:
    reference = machine.action("reference", lambda _: 0.5, share)
    actions = {name: machine.action(name, lambda _: 1.0) for name in "ab"}
    return machine.rounds(actions, reference, probes=4, patience_s=5.0)


def test_beside_a_process_that_stays_nothing_is_run() -> None:
    machine = ScriptedMachine()
    rounds = probed(machine, lambda _: 0.4).until(never, math.inf)
    assert set(machine.log) == {"reference"} and machine.now == pytest.approx(6.0)  # three probes of two seconds
    assert len(rounds) == 0 and rounds.ratio("a", over="b") == Estimate(1.0, 0.0, math.inf)
    assert rounds.quiet("a", "b") == [] and rounds.facts()["rounds"] == 0


def test_a_process_that_lets_go_is_waited_for() -> None:
    machine = ScriptedMachine()
    rounds = probed(machine, lambda call: 0.4 if call < 4 else 0.0).until(never, 1.0)
    assert len(rounds) and machine.log[:8] == ["reference"] * 8


def test_a_session_that_has_slowed_down_is_not_quiet() -> None:
    machine = ScriptedMachine()
    actions = {name: machine.action(name, lambda _: 1.0) for name in "ab"}
    alone = machine.rounds(actions).until(never, 20.0)
    slowed = machine.rounds(actions, best_known_s=lambda: 0.5).until(never, 20.0)
    assert alone.quiet("a") and not slowed.quiet("a")


def test_the_protocol_names_the_most_passes_of_any_action() -> None:
    machine = ScriptedMachine()
    actions = {n: machine.action(n, lambda _, s=s: s) for n, s in (("long", 2.0), ("short", 1e-4))}
    rounds = machine.rounds(actions).until(never, 20.0)
    passes = machine.log.count("short") / machine.log.count("long")
    assert 1 < passes <= rounds.facts()["passes_per_round"]
