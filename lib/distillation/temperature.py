"""A distribution at a temperature: softmax(z / T) and what follows from that form alone.

Source: Hinton, Vinyals and Dean 2015, arXiv:1503.02531, eq. 1. Everything is computed in float64, whatever the logits
come in, so that a temperature of 1e-300 is as safe as one of 1: the largest logit is subtracted before dividing.

One identity has the consequences worth knowing. The ratio of two tokens at T is the T-th root of their ratio at 1, so
no temperature changes their order. But a token's own *share* obeys d log p_i / dT = (E_T[z] - z_i) / T²: it rises with
T only while the token's logit is below the mean that the distribution itself gives. A near miss of a long-tailed
distribution therefore loses weight to the tail while it gains on the top token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from scipy.optimize import brentq
from torch import Tensor

from lib.unmeasurable import Unmeasurable

# Below and above, float64 cannot tell the distribution from its limits for logits of any usual size.
COLDEST, HOTTEST = 1e-9, 1e9

# What is left of a sum of at most 1 after a subtraction may be rounding alone; its root would be anything but small.
_NOTHING = 64 * 2.0**-53


def log_soften(logits: Tensor, temperature: float) -> Tensor:
    """log softmax(logits / T) over the last dimension, float64 in nats; logits (..., V), -inf for a forbidden token.

    Log probabilities serve as logits. Raises ValueError on a temperature that is not positive and finite (at zero the
    limit is a hard label, no softmax), Unmeasurable on rows without a finite largest logit.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"a temperature is positive and finite, got {temperature}; its limit at 0 is the hard label")
    precise = logits.double()
    highest = precise.amax(-1, keepdim=True)
    if not highest.isfinite().all():
        raise Unmeasurable("a row of logits has no finite largest value: there is nothing to soften")
    return torch.log_softmax((precise - highest) / temperature, -1)


def soften(logits: Tensor, temperature: float) -> Tensor:
    """softmax(logits / T): probabilities (..., V), float64. Errors as `log_soften`."""
    return log_soften(logits, temperature).exp()


def tempered_ratio(ratio: float, temperature: float, at: float = 1.0) -> float:
    """What a ratio of two probabilities at temperature `at` becomes at another: ratio ** (at / T).

    Raises ValueError unless ratio and both temperatures are positive.
    """
    if min(ratio, temperature, at) <= 0:
        raise ValueError(f"needs a positive ratio and temperatures, got {ratio} at {at} and {temperature}")
    return float(ratio ** (at / temperature))


def ratio_between(logits: Tensor, first: int, second: int, temperature: float) -> float:
    """p_first / p_second at T for logits (V,), by the softmax itself rather than by `tempered_ratio`."""
    probabilities = soften(logits, temperature)
    return float(probabilities[first] / probabilities[second])


def entropy(probabilities: Tensor) -> Tensor:
    """-sum p log p in nats over the last dimension; an impossible token adds nothing."""
    nats: Tensor = torch.special.entr(probabilities.double())
    return nats.sum(-1)


def entropy_slope(logits: Tensor, temperature: float) -> Tensor:
    """dH/dT = Var_T(z) / T³ in nats per unit of T: never negative, so a higher temperature never sharpens."""
    centred = logits.double() - expected_logit(logits, temperature).unsqueeze(-1)
    variance: Tensor = (soften(logits, temperature) * centred.square()).sum(-1)
    return variance / temperature**3


def expected_logit(logits: Tensor, temperature: float) -> Tensor:
    """E_T[z] = sum p_i(T) z_i; finite logits (..., V). Above it a token loses share as T rises, below it gains."""
    return (soften(logits, temperature) * logits.double()).sum(-1)


def share_peak_temperature(logits: Tensor, token: int) -> float:
    """The temperature at which the token's probability is largest; finite logits (V,).

    0 for a token of the largest logit (its share only falls), inf for one at or below the plain mean of all logits
    (its share only rises). E_T[z] falls in T, so there is one crossing.
    """
    own = float(logits.double()[token])
    if own >= float(logits.double().max()):
        return 0.0
    if own <= float(logits.double().mean()):
        return math.inf

    def gap(log_temperature: float) -> float:
        return float(expected_logit(logits, math.exp(log_temperature))) - own

    if gap(math.log(HOTTEST)) >= 0:  # above the mean by less than float64 can tell
        return math.inf
    return math.exp(brentq(gap, math.log(COLDEST), math.log(HOTTEST)))


def share_bound(top: Sequence[float], token: int, temperature: float) -> float:
    """The most that the token's probability can be at T >= 1, knowing only the k largest probabilities at T = 1.

    top: the k largest, descending; token: an index into them. Each token left out has at most the last of them, and
    p ** (1/T) is concave, so the sum of the tempered rest is least where as few as possible share what is left, each
    at that cap. Raises ValueError on an order that is not descending, on a sum above 1, and on T < 1 (no bound).
    """
    if list(top) != sorted(top, reverse=True) or sum(top) > 1 or top[-1] <= 0:
        raise ValueError(f"needs descending positive probabilities with a sum of at most 1, got {list(top)}")
    if not 1 <= temperature < math.inf:
        raise ValueError(f"the bound needs a temperature from 1 up, got {temperature}")
    rest, power = 1 - sum(top), 1 / temperature
    full = int(rest / top[-1])
    left = rest - full * top[-1]
    least = full * top[-1] ** power + (left**power if left > _NOTHING else 0.0)
    return float(top[token] ** power / (sum(p**power for p in top) + least))


def order_reversals(before: Tensor, after: Tensor) -> int:
    """Neighbours in the order of `before` (V,) that `after` (V,) puts the other way round; 0 iff no pair is reversed.

    Ties of either side reverse nothing: at high temperatures rounding merges close tokens, it does not swap them.
    """
    by_after = after.argsort(descending=True, stable=True)
    by_both = by_after[before[by_after].argsort(descending=True, stable=True)]  # ties of before in the order of after
    return int((after[by_both].diff() > 0).sum())


def mass_of(probabilities: Tensor, tokens: Sequence[int] | Tensor) -> float:
    """Summed probability of some tokens of one distribution (V,)."""
    return float(probabilities[torch.as_tensor(tokens)].sum())


def rank_bands(logits: Tensor, edges: Sequence[int]) -> dict[str, Tensor]:
    """Tokens by rank, most probable first, cut after each of `edges`: "1", "2-5", "6-151,936" → their ids.

    Raises ValueError on edges that do not rise or reach beyond the vocabulary of logits (V,).
    """
    order, cuts = logits.argsort(descending=True, stable=True), [0, *edges, len(logits)]
    if any(b <= a for a, b in pairwise(cuts)):
        raise ValueError(f"edges must rise from 1 to less than {len(logits)}, got {list(edges)}")
    return {f"{a + 1:,}" if b == a + 1 else f"{a + 1:,}-{b:,}": order[a:b] for a, b in pairwise(cuts)}


def ids_for_mass(probabilities: Tensor, share: float) -> int:
    """How many of the most probable tokens (V,) hold at least this share of the mass; all of them at 1."""
    held = probabilities.double().sort(descending=True).values.cumsum(0)
    return min(int((held < share).sum()) + 1, len(held))
