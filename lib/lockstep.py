"""Two programs that generate the same reply, timed side by side: passes over the whole text, or steps on a cache.

Pass i of a reply (from 0) sees the prompt and i tokens. Pass 0 is the prefill in both programs. Some of the passes are
timed, in an order drawn anew, and the rest read off a straight line through them: a pass over n positions costs a fixed
part and a part for each position (attention's square is below 1 % of it at these lengths, and what the line misses
counts as noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t
from torch import Tensor
from transformers import PreTrainedModel

from lib.decoding import ALL_POSITIONS, forward, prefill, random_tokens
from lib.intervals import Estimate, Number
from lib.step_actions import decode_action
from lib.timing.intervals import CONFIDENCE, UNKNOWN
from lib.timing.rounds import Rounds

Action = Callable[[], object]
Column = NDArray[np.float64]
EVERY, LAST = "logits of every position", "one row of logits"
TEXT, CACHED = "a short text", "cached"
KEPT = {EVERY: ALL_POSITIONS, LAST: 1}
STEPS = 2  # of each cached step, of which the faster counts; a pass over the text takes as long as three of them
FEWEST_ROUNDS = 3  # each with several passes for the line
FEWEST = 6  # passes; a line takes two of them, and t with fewer than four degrees of freedom says little


@dataclass(frozen=True)
class Passes:
    """Times of some passes of both programs, seconds; numbers: which ones; prefills: pass 0, however often taken."""

    numbers: Sequence[int]
    uncached: Sequence[float]
    cached: Sequence[float]
    prefills: Sequence[float]


def timed_passes(reply: int, every: int) -> list[int]:
    """Which passes are timed: the middle one of every so many after the prefill, and the last."""
    return sorted({*range(1 + every // 2, reply, every), reply - 1})


def lockstep_actions(
    model: PreTrainedModel, prompt: int, numbers: Sequence[int], texts: Sequence[int] = ()
) -> dict[str, Action]:
    """Passes of these numbers by name (`called`), after a prompt of random tokens, and both prefills.

    texts: also passes without a cache over so many positions, shorter than the prompt.
    """
    ids = random_tokens(prompt + max(numbers), model.config.get_text_config().vocab_size).to(model.device)
    first = ids[:, :prompt]
    actions: dict[str, Action] = {called(kind, 0): _prefill(model, first, kept) for kind, kept in KEPT.items()}
    for number in numbers:
        seen = ids[:, : prompt + number]
        for kind, kept in KEPT.items():
            actions[called(kind, number)] = _whole_pass(model, seen, kept)
        actions[called(CACHED, number)] = decode_action(model, prompt + number - 1)
    return actions | {called(TEXT, n): _whole_pass(model, ids[:, :n], 1) for n in texts}


def warmed(rounds: Rounds, longest: str) -> Rounds:
    """The same rounds without a warm-up of their own, after their longest pass has run once.

    A pass here differs from the next by one position and shares all of its kernels with it; warming each up by itself
    would take as long as a whole round.
    """
    rounds.actions[longest]()
    passes = {name: STEPS if name.startswith(CACHED) else 1 for name in rounds.actions}
    return replace(rounds, warm_up=0, passes=passes, fewest=FEWEST_ROUNDS)


def pass_over_step(rounds: Rounds, numbers: Sequence[int], texts: Sequence[int]) -> dict[int, float]:
    """A pass over so many positions in units of a mean cached step, quiet samples only: at 1 a cache saves nothing."""
    steps = [seconds for name in _names(CACHED, numbers) for seconds in rounds.quiet_seconds(name)]
    passes = {n: rounds.quiet_seconds(called(TEXT, n)) for n in texts}
    return {n: float(np.mean(taken) / np.mean(steps)) for n, taken in passes.items() if taken and steps}


def _names(kind: str, numbers: Sequence[int]) -> list[str]:
    return [called(kind, number) for number in numbers]


def called(kind: str, number: int) -> str:
    """An action's name."""
    return f"{kind}, pass {number}"


def passes_of(rounds: Rounds, numbers: Sequence[int], kind: str) -> Passes:
    """The quiet samples of one uncached variant and of the cached program."""
    columns: dict[str, list[float]] = {"n": [], "u": [], "c": []}
    for number in numbers:
        names = called(kind, number), called(CACHED, number)
        both = rounds.quiet(*names)
        columns["n"] += [number] * len(both)
        columns["u"] += rounds.quiet_seconds(names[0], both)
        columns["c"] += rounds.quiet_seconds(names[1], both)
    prefills = rounds.quiet_seconds(called(kind, 0))
    return Passes([int(n) for n in columns["n"]], columns["u"], columns["c"], prefills)


def generation_factor(passes: Passes, tokens: int, confidence: float = CONFIDENCE) -> Estimate:
    """Seconds of the whole uncached reply of so many tokens over those of the cached one, with its interval.

    Sums over all passes by lines through the timed ones; Student's t on the residuals of (uncached - factor x cached),
    as for any ratio of two sums (Cochran, Sampling Techniques, section 6.3), with n - 2 degrees of freedom. The prefill
    is in both sums; its own error is taken from the scatter of the cached steps. Too few passes: nothing is known.
    """
    if len(passes.numbers) < FEWEST or not passes.prefills:
        return UNKNOWN
    uncached, cached = np.asarray(passes.uncached), np.asarray(passes.cached)
    weights, first = _sum_weights(passes.numbers, tokens), float(np.mean(passes.prefills))
    total = first + float(weights @ cached)
    factor = (first + float(weights @ uncached)) / total
    spread = _scatter(passes.numbers, uncached - factor * cached)
    prefill_error = first * _scatter(passes.numbers, cached) / float(cached.mean()) / math.sqrt(len(passes.prefills))
    error = math.hypot(spread * float(np.linalg.norm(weights)), (factor - 1) * prefill_error)
    reach = float(t.ppf((1 + confidence) / 2, len(cached) - 2)) * error / total
    return Estimate(factor, max(0.0, factor - reach), factor + reach)


def factors(passes: Passes, lengths: Sequence[int]) -> Mapping[int, Estimate]:
    """The factor of replies of several lengths; those beyond the timed passes are extrapolated."""
    return {tokens: generation_factor(passes, tokens) for tokens in lengths}


def growth(passes: Passes, tokens: int, shorter: int, confidence: float = CONFIDENCE) -> Estimate:
    """The factor of one reply over that of a shorter one, from the same passes, so that most of their error cancels.

    The error of its logarithm to first order in each time (delta method), what both passes of a pair have in common
    included; Student's t as in `generation_factor`.
    """
    if len(passes.numbers) < FEWEST or not passes.prefills:
        return UNKNOWN
    logs, error_first = 0.0, 0.0
    first, columns = float(np.mean(passes.prefills)), np.asarray([passes.uncached, passes.cached])
    lever = np.zeros_like(columns)  # what the logarithm gains by each second of each pass
    for sign, reply in ((1, tokens), (-1, shorter)):
        weights = _sum_weights(passes.numbers, reply)
        for side, column in enumerate(columns):
            total, way = first + float(weights @ column), sign * (1 - 2 * side)
            logs, error_first = logs + way * math.log(total), error_first + way / total
            lever[side] += way * weights / total
    error = math.sqrt(float((lever @ lever.T * _covariance(passes.numbers, columns)).sum()))
    of_first = first * _scatter(passes.numbers, columns[1]) / float(columns[1].mean()) / math.sqrt(len(passes.prefills))
    reach = float(t.ppf((1 + confidence) / 2, len(passes.numbers) - 2)) * math.hypot(error, error_first * of_first)
    return Estimate(*(math.exp(logs + side * reach) for side in (0, -1, 1)))


def predicted_factor(prefill_s: Estimate, step_s: Estimate, prompt: int, tokens: int) -> Estimate:
    """The factor if a pass cost as much per position as the prefill does: from two printed times, exactly.

    The prefill's time is in both sums, so the ends are taken of the whole expression, which rises with prefill_s and
    falls with step_s.
    """

    positions = sum(prompt + i for i in range(tokens))

    def at(first: Number, step: Number) -> Number:
        return first * Fraction(positions, prompt) / (first + (tokens - 1) * step)

    return Estimate(at(prefill_s.value, step_s.value), at(prefill_s.low, step_s.high), at(prefill_s.high, step_s.low))


def _sum_weights(numbers: Sequence[int], tokens: int) -> Column:
    """The linear combination of timed passes that is the least-squares line's sum over passes 1 … tokens - 1."""
    line = np.vander(np.asarray(numbers, dtype=float), 2)
    wanted = np.vander(np.arange(1, tokens, dtype=float), 2).sum(axis=0)
    return np.asarray(np.linalg.pinv(line).T @ wanted)


def _scatter(numbers: Sequence[int], values: Column) -> float:
    """Standard deviation of the residuals around a straight line."""
    return math.sqrt(float(_covariance(numbers, values[None])[0, 0]))


def _covariance(numbers: Sequence[int], columns: Column) -> Column:
    """(columns, columns): of their residuals around straight lines, pass by pass; columns is (columns, passes)."""
    line = np.vander(np.asarray(numbers, dtype=float), 2)
    residuals = columns.T - line @ np.linalg.lstsq(line, columns.T, rcond=None)[0]
    return np.asarray(residuals.T @ residuals / (len(numbers) - 2))


def _whole_pass(model: PreTrainedModel, ids: Tensor, kept: int) -> Action:
    return lambda: forward(model, ids, logits_to_keep=kept)


def _prefill(model: PreTrainedModel, ids: Tensor, kept: int) -> Action:
    return lambda: prefill(model, ids, kept)
