"""The factor of two programs against scripted times, and its interval against the truth of simulated generations."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lib.intervals import printed
from lib.lockstep import (
    EVERY,
    LAST,
    UNKNOWN,
    Passes,
    called,
    factors,
    generation_factor,
    growth,
    lockstep_actions,
    passes_of,
    predicted_factor,
    timed_passes,
)
from lib.tests.scripted_machine import ScriptedMachine
from lib.timing.intervals import CONFIDENCE

PROMPT, REPLY, STRIDE = 40, 48, 3
NUMBERS = timed_passes(REPLY, STRIDE)
STEP = 0.2
ROUNDING = 1e-9  # sums of some fifty doubles and a least-squares fit of two columns up to 48
TRIALS = 1500
SIGMAS = 4  # of a simulated share; seeded, so it passes or fails for good


def whole(number: int) -> float:
    """An uncached pass: a fixed part and a part for each position."""
    return 0.1 + 0.005 * (PROMPT + number)


def true_factor(tokens: int) -> float:
    return sum(map(whole, range(tokens))) / (whole(0) + (tokens - 1) * STEP)


def exact_passes() -> Passes:
    return Passes(NUMBERS, [whole(n) for n in NUMBERS], [STEP] * len(NUMBERS), [whole(0)])


@pytest.mark.parametrize("tokens", [1, 2, 12, REPLY])
def test_factor_against_the_sum_over_every_pass(tokens: int) -> None:
    found = generation_factor(exact_passes(), tokens)
    assert found.value == pytest.approx(true_factor(tokens), abs=ROUNDING)
    assert found.high - found.low < ROUNDING


def test_one_token_is_the_prefill_alone() -> None:
    assert generation_factor(exact_passes(), 1).value == 1


def test_the_mean_of_ratios_is_not_the_factor() -> None:
    """The wrong statistic: it forgets that the prefill is in both programs."""
    wrong = float(np.mean([whole(n) / STEP for n in range(1, REPLY)]))
    assert abs(wrong - true_factor(REPLY)) > 1000 * ROUNDING


def noisy(random: np.random.Generator, noise: float) -> Passes:
    """Each time with a tail of its own: a log-normal factor of mean 1."""

    def times(nominal: list[float]) -> list[float]:
        tail = np.exp(noise * random.standard_normal(len(nominal)) - noise**2 / 2)
        return [float(value) for value in np.asarray(nominal) * tail]

    return Passes(NUMBERS, times([whole(n) for n in NUMBERS]), times([STEP] * len(NUMBERS)), times([whole(0)]))


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3])
def test_coverage_over_simulated_generations(noise: float) -> None:
    """At least what it promises, less four standard deviations of the simulated share, up to noise of 30 %."""
    random, truth = np.random.default_rng(7), true_factor(REPLY)
    hits = sum(generation_factor(noisy(random, noise), REPLY).contains(truth) for _ in range(TRIALS))
    assert hits / TRIALS >= CONFIDENCE - SIGMAS * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / TRIALS)


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_coverage_of_growth_over_simulated_generations(noise: float) -> None:
    random, truth = np.random.default_rng(11), true_factor(REPLY) / true_factor(12)
    hits = sum(growth(noisy(random, noise), REPLY, 12).contains(truth) for _ in range(TRIALS))
    assert hits / TRIALS >= CONFIDENCE - SIGMAS * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / TRIALS)


def test_growth_is_the_surer_the_more_both_passes_of_a_pair_share() -> None:
    """A slow second that meets both times of a pair says little about their ratio."""
    random = np.random.default_rng(3)
    apart, together = noisy(random, 0.1), exact_passes()
    shared = np.exp(0.1 * random.standard_normal(len(NUMBERS)))
    together = replace(together, uncached=shared * together.uncached, cached=shared * together.cached)
    widths = [math.log(found.high / found.low) for found in (growth(p, REPLY, 12) for p in (apart, together))]
    assert widths[1] < widths[0] / 2 and growth(together, REPLY, 12).contains(true_factor(REPLY) / true_factor(12))


def test_coverage_rejects_an_interval_that_forgets_the_cached_scatter() -> None:
    """The same passes with the steps' noise averaged away: the interval is then too narrow for noisy steps."""
    random, hits = np.random.default_rng(7), 0
    for _ in range(TRIALS):
        drawn = noisy(random, 0.1)
        calm = Passes(NUMBERS, [whole(n) for n in NUMBERS], [float(np.mean(drawn.cached))] * len(NUMBERS), [whole(0)])
        hits += generation_factor(calm, REPLY).contains(true_factor(REPLY))
    assert hits / TRIALS < CONFIDENCE - 0.1


def test_too_few_passes_say_nothing() -> None:
    few = Passes(NUMBERS[:5], [1.0] * 5, [1.0] * 5, [1.0])
    assert generation_factor(few, REPLY) == UNKNOWN
    assert generation_factor(Passes(NUMBERS, [1.0] * 17, [1.0] * 17, []), REPLY) == UNKNOWN


def test_the_factor_grows_with_the_reply() -> None:
    values = [found.value for found in factors(exact_passes(), (1, 2, 12, REPLY)).values()]
    assert values == sorted(values)


def test_growth_against_the_sums_and_where_nothing_is_known() -> None:
    found = growth(exact_passes(), REPLY, 12)
    assert found.value == pytest.approx(true_factor(REPLY) / true_factor(12), abs=ROUNDING)
    assert growth(Passes([], [], [], []), REPLY, 12) == UNKNOWN


def test_timed_passes_stand_for_their_neighbours() -> None:
    assert NUMBERS == [2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35, 38, 41, 44, 47]
    assert timed_passes(5, 3) == [2, 4]


def test_passes_against_a_scripted_clock_with_a_disturbed_step() -> None:
    """A step beside which the machine was somebody else's is left out, with its partner."""
    machine = ScriptedMachine()
    actions = {called(EVERY, 0): machine.action("first", lambda _: whole(0))}
    for n in NUMBERS:
        busy = n == 20
        actions[called(EVERY, n)] = machine.action(f"u{n}", lambda _, n=n: whole(n))
        actions[called("cached", n)] = machine.action(
            f"c{n}", lambda _, busy=busy: 9.0 if busy else STEP, lambda _, busy=busy: 0.5 if busy else 0.0
        )
    rounds = machine.rounds(actions).until(lambda: True, 0)
    found = passes_of(rounds, NUMBERS, EVERY)
    assert set(NUMBERS) - set(found.numbers) == {20}
    assert generation_factor(found, REPLY).value == pytest.approx(true_factor(REPLY), abs=ROUNDING)


def test_prediction_against_exact_arithmetic() -> None:
    """3,048 positions at 25.56 ms over one prefill and 47 steps."""
    found = predicted_factor(printed("1.0224"), printed("0.1665"), 40, 48)
    exact = Fraction(10224, 10000) / 40 * 3048 / (Fraction(10224, 10000) + 47 * Fraction(1665, 10000))
    assert found.value == exact and found.low < exact < found.high
    assert round(float(exact), 3) == 8.805


def test_prediction_is_narrower_than_independent_interval_arithmetic() -> None:
    prefill, step = printed("1.0224"), printed("0.1665")
    loose = prefill * Fraction(3048, 40) / (prefill + 47 * step)
    found = predicted_factor(prefill, step, 40, 48)
    assert found.within(loose) and not loose.within(found)


def test_actions_run_what_they_say() -> None:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, vocab_size=40,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    seen: list[tuple[int, int]] = []
    model.register_forward_hook(lambda _, args, out: seen.append((args[0].shape[1], out.logits.shape[1])))
    actions = lockstep_actions(model, 4, [2, 3])
    for name in (called(EVERY, 0), called(LAST, 0), called(EVERY, 2), called(LAST, 3), called("cached", 3)):
        actions[name]()
    assert seen == [(4, 4), (4, 1), (6, 6), (7, 1), (1, 1)]


def test_the_interval_of_growth_is_not_wide_for_nothing() -> None:
    """Some 4.5 deviations of its middle, by Student's t; one that is twice as wide would cover as well."""
    random = np.random.default_rng(5)
    found = [growth(noisy(random, 0.02), REPLY, 12) for _ in range(TRIALS)]
    widths = [math.log(interval.high / interval.low) for interval in found]
    assert float(np.mean(widths)) < 7 * float(np.std([math.log(interval.value) for interval in found]))
