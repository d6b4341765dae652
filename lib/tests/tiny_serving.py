"""For the serving tests: tiny random models, a pool of requests with their solo runs, an engine driven by a script."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count

import torch
from transformers import GPT2Config, LlamaConfig, PreTrainedModel, Qwen2Config
from transformers.models.gpt2 import GPT2LMHeadModel
from transformers.models.llama import LlamaForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.decoding import random_tokens
from lib.serving.engine import Engine, Settings, Step
from lib.serving.reference import Solo, solo
from lib.serving.requests import GenerationRequest, Sampling

VOCAB, LONGEST = 97, 64
FAMILIES = ("qwen2", "llama", "gpt2")
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,  # wide, so that a choice depends on what came before it
    "max_position_embeddings": LONGEST,
    "bos_token_id": None,
    "eos_token_id": None,
}
# Logits of these models are sums over 48 terms of size up to about 5 in fp32: 48 · 2^-24 · 5, times 2 layers; both
# scores of a pair are off by as much, and a temperature of 0.7 enlarges them.
ROUNDING = 2 * 2 * 5 * 48 * 2.0**-24 / 0.7
NEW = 14  # tokens of every solo run; a shorter reply is its beginning


@cache
def tiny(family: str) -> PreTrainedModel:
    """The same model for every test of a process; nobody may leave it changed."""
    torch.manual_seed(7)
    if family == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**SIZES)).eval()
    if family == "llama":
        return LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16)).eval()
    config = GPT2Config(
        vocab_size=VOCAB, n_embd=48, n_layer=2, n_head=6, n_positions=LONGEST, initializer_range=0.3,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


def prompt(length: int, seed: int) -> tuple[int, ...]:
    return tuple(random_tokens(length, VOCAB, seed=seed)[0].tolist())


@cache
def pool() -> tuple[GenerationRequest, ...]:
    """Twelve requests, four with a common beginning, two equal, a third of them sampled."""
    common, lengths = prompt(9, 1), (1, 7, 16, 3, 11, 5, 2, 8)
    prompts = [prompt(n, 10 + i) for i, n in enumerate(lengths)]
    prompts += [common + prompt(n, 50 + n) for n in (1, 4, 6)] + [common + prompt(4, 54)]
    ways = (None, Sampling(3, 0.7), None, None, Sampling(5, 1.0, top_k=20, top_p=0.9), None)
    return tuple(GenerationRequest(i, p, NEW, ways[i % 6]) for i, p in enumerate(prompts))


@cache
def alone(family: str) -> dict[Hashable, Solo]:
    return {request.id: solo(tiny(family), request) for request in pool()}


def expected(family: str, request: GenerationRequest) -> Solo:
    """The solo run of a request of the pool, up to this request's limit."""
    whole, limit = alone(family)[request.id], request.max_new_tokens
    return Solo(whole.tokens[:limit], whole.gaps[:limit])


def limited(limits: Mapping[int, int]) -> list[GenerationRequest]:
    """Requests of the pool by number, in this order, with these limits."""
    return [replace(pool()[i], max_new_tokens=limit) for i, limit in limits.items()]


def counting_clock():
    """A clock that goes on by one second whenever it is read."""
    ticks = count()
    return lambda: float(next(ticks))


@dataclass
class Script:
    """Requests and when (before which step) they are handed in or cancelled; 0 for all that say nothing."""

    requests: Sequence[GenerationRequest]
    arrivals: Mapping[Hashable, int] = field(default_factory=dict)
    cancellations: Mapping[Hashable, int] = field(default_factory=dict)
    streamed: dict[Hashable, list[int]] = field(default_factory=dict)

    def play(self, family: str, settings: Settings, most: int = 3000) -> tuple[Engine, list[Step]]:
        engine, steps = Engine(tiny(family), settings, counting_clock()), list[Step]()
        last = max([0, *self.arrivals.values(), *self.cancellations.values()])
        for number in range(most):
            self._events(engine, number)
            done = engine.step()
            steps += [done] if done else []
            if done is None and number >= last:
                return engine, steps
        raise AssertionError(f"still busy after {most} steps")

    def _events(self, engine: Engine, number: int) -> None:
        for request in self.requests:
            if self.arrivals.get(request.id, 0) == number:
                engine.submit(request, lambda name, token: self.streamed.setdefault(name, []).append(token))
        for name, at in self.cancellations.items():
            if at == number and name in engine.records:
                engine.cancel(name)
