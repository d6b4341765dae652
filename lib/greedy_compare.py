"""Two greedy generations of the same prompts, compared token by token up to where they part.

After the first divergence the two continue different texts and nothing there can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.decoding import Generated, greedy_cached, greedy_uncached


@dataclass(frozen=True)
class Divergence:
    """Where one prompt's generations part: prompt row, token number (0 the first), the two ids, and how close it was.

    top2_gap: the reference's best logit minus its second best. logit_difference: largest distance between the two
    logit rows there.
    """

    row: int
    step: int
    ids: tuple[int, ...]
    top2_gap: float
    logit_difference: float


@dataclass(frozen=True)
class Comparison:
    """tokens: how many choices were compared (all, up to and including a divergence).

    logit_difference and largest_logit: over the compared rows, in logits.
    """

    tokens: int
    divergences: tuple[Divergence, ...]
    logit_difference: float
    largest_logit: float
    smallest_gap: float

    @property
    def equal(self) -> bool:
        """Whether every token of every prompt is the same."""
        return not self.divergences


def compare(generated: Generated, reference: Generated) -> Comparison:
    """Compare two generations of equal shape that kept their logits; raises ValueError if they did not."""
    if generated.logits is None or reference.logits is None or generated.tokens.shape != reference.tokens.shape:
        raise ValueError("compare needs two generations of one shape, both with their logits")
    ours, theirs = generated.logits.float(), reference.logits.float()
    same = generated.tokens == reference.tokens  # (B, n)
    comparable = torch.cat([torch.ones_like(same[:, :1]), same[:, :-1]], dim=1).cumprod(1).bool()
    distance = (ours - theirs).abs().amax(-1)
    gap = top2_gap(theirs)
    parting = (comparable & ~same).nonzero().tolist()
    ids = torch.stack([generated.tokens, reference.tokens], dim=-1)  # (B, n, 2)
    found = [Divergence(r, s, tuple(ids[r, s].tolist()), float(gap[r, s]), float(distance[r, s])) for r, s in parting]
    return Comparison(
        tokens=int(comparable.sum()),
        divergences=tuple(found),
        logit_difference=float(distance[comparable].max()),
        largest_logit=float(theirs[comparable].abs().max()),
        smallest_gap=float(gap[comparable].min()),
    )


def top2_gap(logits: Tensor) -> Tensor:
    """(..., vocab) → (...): how far the best logit is ahead of the second best; 0 for a tie."""
    best = logits.float().topk(2, dim=-1).values
    return best[..., 0] - best[..., 1]


def closest_calls(prompts: Tensor, generated: Generated, count: int) -> list[Tensor]:
    """Prompts (1, ·) whose *second* greedy token is nearly a tie, closest first.

    prompts: (B, P), the ones that ``generated`` continues. The second, because the first comes out of the prefill,
    which is the same computation with and without a cache. Raises ValueError without logits.
    """
    if generated.logits is None:
        raise ValueError("closest_calls needs the logits")
    text = torch.cat([prompts.to(generated.tokens.device), generated.tokens], dim=1)
    gaps = top2_gap(generated.logits)[:, 1:]  # token s of the reply, s = 1 … n-1
    order = gaps.flatten().argsort(stable=True)[:count].tolist()
    places = [divmod(index, gaps.shape[1]) for index in order]
    return [text[row : row + 1, : prompts.shape[1] + step] for row, step in places]


def cached_against_uncached(model: PreTrainedModel, prompts: Tensor, n: int) -> Comparison:
    """Both greedy loops, really run, on the same prompts (B, P) in one batch; the uncached one is the reference."""
    cached = greedy_cached(model, prompts, n, keep_logits=True)
    return compare(cached, greedy_uncached(model, prompts, n, keep_logits=True))


def hunt_divergence(model: PreTrainedModel, prompts: Tensor, n: int, tries: int) -> list[Comparison]:
    """Look for a prompt whose two greedy outputs differ, where it is likeliest: at the closest calls of a generation.

    Continues the prompts by n tokens, takes the ``tries`` prefixes whose next-but-one token is nearest to a tie, and
    runs both loops for two tokens from each, until one of them diverges. Returns the comparisons made.
    """
    made: list[Comparison] = []
    for prompt in closest_calls(prompts, greedy_cached(model, prompts, n, keep_logits=True), tries):
        made.append(cached_against_uncached(model, prompt, 2))
        if not made[-1].equal:
            break
    return made
