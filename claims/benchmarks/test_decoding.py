"""Benchmarks of prefill and decode: figures of a machine, not claims. `pytest -m gpu --benchmark-only` runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture
    from transformers import PreTrainedModel

CONTEXT_TOKENS = 512
ROUNDS = 30


@pytest.mark.gpu
def test_decode_step_on_gpu(benchmark: BenchmarkFixture, model: PreTrainedModel) -> None:
    """One decode step against a cache of 512 tokens, rolled back after each round; synchronised on both sides."""
    import torch

    from lib.decoding import decode_step, prefill, random_tokens, rollback

    ids = random_tokens(CONTEXT_TOKENS + 1, model.config.vocab_size)
    cache = prefill(model, ids[:, :-1]).cache

    def step() -> None:
        decode_step(model, ids[:, -1:], cache)
        rollback(cache, CONTEXT_TOKENS)
        torch.cuda.synchronize()

    benchmark.pedantic(step, setup=torch.cuda.synchronize, rounds=ROUNDS, warmup_rounds=3)
    benchmark.extra_info["context_tokens"] = CONTEXT_TOKENS
