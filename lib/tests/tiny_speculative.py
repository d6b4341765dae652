"""For the tests of speculative decoding: models that are tables, drafts that nearly agree, laws by other means."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor
from transformers import PreTrainedModel, Qwen2Config, TopKLogitsWarper, TopPLogitsWarper
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.decoding import random_tokens
from lib.serving.requests import GenerationRequest, Sampling
from lib.speculative.decoding import run
from lib.speculative.drafts import Drafter, Scorer
from lib.speculative.enumeration import law
from lib.speculative.sampling import Draws, Proposal, Rule, Sampled
from lib.tests.tiny_serving import NEW, VOCAB, tiny

# A law is a sum over at most some thousand paths, each a product of about a dozen softmax chances: 5000 additions at
# 2^-53 come to 6e-13, the factors to 12 · 8 · 2^-53 = 1e-14 of it.
EXACT = 1e-12
WRONG = 1e-3  # a wrong rule on tables with logits of about 1 moves whole percents, not rounding


@dataclass
class Table:
    """A scorer without weights: random logits of its own for every text, or the same ones for all."""

    vocab: int
    seed: int
    spread: float = 1.0
    constant: bool = False
    rows: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    def logits(self, text: Sequence[int], keep: int) -> Tensor:
        return torch.stack([self._row(tuple(text[: len(text) - keep + i + 1])) for i in range(keep)])

    def _row(self, text: tuple[int, ...]) -> Tensor:
        key = () if self.constant else text
        if key not in self.rows:
            number = sum((token + 1) * (self.vocab + 1) ** i for i, token in enumerate(key))
            generator = torch.Generator().manual_seed(1000 * number + self.seed)
            self.rows[key] = self.spread * torch.randn(self.vocab, generator=generator, dtype=torch.float64)
        return self.rows[key]


@dataclass
class Fixed:
    """Always guesses the same tokens, for certain."""

    tokens: tuple[int, ...]

    def propose(self, text: Sequence[int], count: int, rule: Rule) -> Proposal:
        return Proposal(self.tokens[:count])


class Nothing:
    """Never has a guess."""

    def propose(self, text: Sequence[int], count: int, rule: Rule) -> Proposal:
        return Proposal()


def chances(logits: Tensor, sampling: Sampling) -> Tensor:
    """What transformers' own warpers leave, (vocab,): the oracle for what a token is drawn from."""
    scores = (logits.double() / sampling.temperature)[None]
    scores = scores if sampling.top_k is None else TopKLogitsWarper(sampling.top_k)(None, scores)
    scores = scores if sampling.top_p in {None, 1.0} else TopPLogitsWarper(sampling.top_p)(None, scores)
    return scores[0].softmax(0)


def plain_law(model: Scorer, request: GenerationRequest) -> dict[tuple[int, ...], float]:
    """The law of plain sampling: chances multiplied along every reply there is; no draft, no rule."""
    replies, complete = {(): 1.0}, dict[tuple[int, ...], float]()
    for _ in range(request.max_new_tokens):
        longer: dict[tuple[int, ...], float] = {}
        for reply, before in replies.items():
            row = chances(model.logits([*request.prompt, *reply], 1)[0], request.sampling or Sampling(0))
            grown = {(*reply, token): before * p for token, p in enumerate(row.tolist()) if p > 0}
            complete |= {r: p for r, p in grown.items() if r[-1] in request.end_ids}
            longer |= {r: p for r, p in grown.items() if r[-1] not in request.end_ids}
        replies = longer
    return complete | replies


def speculative_law(
    target: Scorer, drafter: Drafter, request: GenerationRequest, draft_tokens: int, rule: type[Sampled] = Sampled
) -> dict[tuple[int, ...], float]:
    """The law of the replies, every draw of draft, coin, residual and bonus enumerated."""

    def reply(draws: Draws) -> tuple[int, ...]:
        assert request.sampling is not None
        return run(target, drafter, request, draft_tokens, rule(request.sampling, draws)).tokens

    return law(reply)


@cache
def near(family: str, noise: float) -> PreTrainedModel:
    """The tiny model with noise on its weights: a draft that agrees often, not always."""
    model = copy.deepcopy(tiny(family))
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:  # not the norms, nor biases that are all zero
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=noise * float(weight.std()))
    return model


@cache
def three_ids(seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=3, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, initializer_range=0.5, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval().double()


def requests(count: int, sampling: Sampling | None = None, new: int = NEW) -> list[GenerationRequest]:
    """Prompts of 1 to 17 tokens; every third repeats itself, for a lookup to find something."""
    found = []
    for i in range(count):
        ids = random_tokens(1 + i % 17, VOCAB, seed=200 + i)[0].tolist()
        ids = ids * 3 if i % 3 == 0 else ids
        found.append(GenerationRequest(i, tuple(ids[-20:]), new, sampling))
    return found
