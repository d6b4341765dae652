"""How often sequential looks decide falsely, and how often they see what is there: simulated, seeded."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lib.tests.scripted_machine import ScriptedMachine, outside_by
from lib.timing.rounds import Rounds

LOOKS = [4, 6, 9, 14, 21, 31]
FOREVER = math.inf


def noisy(seed: int, log_ratio: float, noise: float) -> Rounds:
    """Two actions with lognormal noise each, `a` typically exp(log_ratio) times `b`."""
    machine, rng = ScriptedMachine(), np.random.default_rng(seed)
    a, b = np.exp(noise * rng.standard_normal((2, 100)))
    return machine.rounds(
        {
            "a": machine.action("a", lambda call: float(a[call]) * math.exp(log_ratio)),
            "b": machine.action("b", lambda call: float(b[call])),
        }
    )


def share_decided(true: float, noise: float, most: int, runs: int) -> float:
    """How many of the runs leave the line at 1.1 within so many rounds."""
    decided = 0
    for seed in range(runs):
        rounds = noisy(seed, math.log(true), noise)
        out = outside_by(rounds, 1.1)
        rounds.until(lambda rounds=rounds, out=out: len(rounds) >= most or out(), FOREVER)
        decided += out()
    return decided / runs


def test_false_decisions_on_the_line_are_rare() -> None:
    """True ratio 1.1 against a margin of 0.1, noise 15 %, all six looks: at most 2.5 % (a simulated error allowed)."""
    runs = 500
    assert share_decided(1.1, 0.15, LOOKS[-1], runs) <= 0.025 + 2 * math.sqrt(0.025 * 0.975 / runs)


def test_looking_at_95_percent_after_every_round_would_decide_falsely() -> None:
    """The tempting wrong variant: the usual confidence, and a look whenever there is something to look at."""
    x = 0.15 * np.random.default_rng(0).standard_normal((2000, 2, LOOKS[-1]))
    logs, wrong = x[:, 0] - x[:, 1], np.zeros(2000, dtype=bool)
    for n in range(LOOKS[0], LOOKS[-1] + 1):
        seen = logs[:, :n]
        wrong |= np.abs(seen.mean(1)) > 2 * seen.std(1, ddof=1) / math.sqrt(n)
    assert wrong.mean() > 0.1


@pytest.mark.parametrize(("noise", "most"), [(0.08 / math.sqrt(2), 14), (0.08, 31)])
def test_power_to_see_a_slow_down_of_thirty_percent(noise: float, most: int) -> None:
    """Against a margin of 10 %: within 14 rounds where the ratio scatters by 8 %, within 31 where each time does."""
    assert share_decided(1.3, noise, most, 150) >= 0.95
