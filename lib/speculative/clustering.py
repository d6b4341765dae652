"""How far the formula's one chance per token is from runs whose acceptances depend on one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lib.intervals import Estimate
from lib.resampling import Column, paired_interval
from lib.speculative.decoding import Round
from lib.speculative.formulas import expected_tokens


def whole_guesses(rounds: Sequence[Sequence[Round]], draft_tokens: int) -> list[list[Round]]:
    """Of each reply, the rounds whose guess was neither cut at the reply's end nor short for want of one."""
    return [[each for each in reply if each.proposed == draft_tokens] for reply in rounds]


def measured_over_formula(
    rounds: Sequence[Sequence[Round]], draft_tokens: int, agrees: Sequence[Sequence[bool]] | None = None
) -> Estimate:
    """Tokens per pass of whole guesses over (1 - a^(g+1)) / (1 - a).

    a is the same rounds' accepted over judged; then the two can hardly differ: with g = 1, and without an end to the
    guesses, they are equal by counting, whatever depends on what. Or a is the share of ``agrees``, of all positions.
    rounds, agrees: by reply; replies are what is resampled (BCa bootstrap), since their rounds are not independent.
    Raises ValueError with fewer than two replies that have a whole guess.
    """
    whole = whole_guesses(rounds, draft_tokens)
    told = [(reply, agrees[i] if agrees else ()) for i, reply in enumerate(whole) if reply]
    hits = [float(sum(row) if agrees else sum(each.accepted for each in reply)) for reply, row in told]
    trials = [float(len(row) if agrees else sum(each.judged for each in reply)) for reply, row in told]
    tokens = [float(sum(each.accepted + 1 for each in reply)) for reply, _ in told]

    def ratio(tokens: Column, passes: Column, hits: Column, trials: Column, axis: int = -1) -> Column:
        of = [np.mean(column, axis=axis) for column in (tokens, passes, hits, trials)]
        return np.asarray(of[0] / of[1] / expected_tokens(of[2] / of[3], draft_tokens))

    return paired_interval([tokens, [float(len(reply)) for reply, _ in told], hits, trials], ratio)


def tokens_per_pass(rounds: Sequence[Sequence[Round]], draft_tokens: int) -> float:
    """Tokens that a pass over a whole guess brought, the target's own included. Raises ValueError if there was none."""
    found = [each.accepted + 1 for reply in whole_guesses(rounds, draft_tokens) for each in reply]
    if not found:
        raise ValueError(f"no guess of {draft_tokens} tokens was made")
    return sum(found) / len(found)
