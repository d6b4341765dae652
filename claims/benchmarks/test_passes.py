"""Benchmarks of single passes: figures of a machine, not claims. `pytest claims/ --benchmark-only` runs them.

Each runs on the CPU and, marked `gpu`, on a GPU in fp32 and fp16. Any model will do, `--model shape` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from claims.benchmarks.bench import Bench

CACHED = 64  # tokens per request where batches and drafts are timed, as in the claims
DECODED, ONE_ROW = 1, 1


@pytest.mark.benchmark(group="prefill")
@pytest.mark.parametrize("prompt", [16, 128, 512])
def test_prefill(bench: Bench, prompt: int) -> None:
    """One pass over a prompt into a fresh cache, one row of logits."""
    from lib.step_actions import pass_cost, prefill_action

    _require_room(bench, prompt)
    cost = pass_cost(bench.model, 0, positions=prompt)
    bench.run_pass(prefill_action(bench.model, prompt), cost, context=0, batch=ONE_ROW, positions=prompt)


@pytest.mark.benchmark(group="decode step")
@pytest.mark.parametrize("context", [64, 1024])
def test_decode_step(bench: Bench, context: int) -> None:
    """One token on top of a cache."""
    _time_step(bench, context, ONE_ROW, DECODED)


@pytest.mark.benchmark(group="batched decode")
@pytest.mark.parametrize("batch", [4, 16, 32])
def test_batched_decode(bench: Bench, batch: int) -> None:
    """One token for each of several requests."""
    _time_step(bench, CACHED, batch, DECODED)


@pytest.mark.benchmark(group="verification")
@pytest.mark.parametrize("positions", [5, 9])
def test_verification(bench: Bench, positions: int) -> None:
    """A draft of four or eight tokens judged in one pass, all positions with logits."""
    _time_step(bench, CACHED, ONE_ROW, positions)


@pytest.mark.benchmark(group="quantization")
@pytest.mark.parametrize("scheme", ["nf4-b64", "int8-row"])
def test_quantization(bench: Bench, scheme: str) -> None:
    """One MLP matrix of the model to codes and scales: every weight read once, no products to speak of."""
    from lib.quantization.schemes import SCHEMES
    from lib.step_actions import PassCost
    from lib.weight_stats import projection_weights

    weights = max(projection_weights(bench.model).values(), key=lambda w: w.numel())
    cost = PassCost(read_bytes=weights.nbytes, flops=0.0)
    rows, columns = weights.shape
    median = bench.run(lambda: SCHEMES[scheme].quantize(weights), cost, rows=rows, columns=columns)
    bench.benchmark.extra_info["weights_per_s"] = weights.numel() / median


def _time_step(bench: Bench, context: int, batch: int, positions: int) -> None:
    from lib.step_actions import decode_action, pass_cost

    _require_room(bench, context + positions)
    cost = pass_cost(bench.model, context, batch=batch, positions=positions, logits=positions)
    step = decode_action(bench.model, context, batch=batch, positions=positions)
    bench.run_pass(step, cost, context=context, batch=batch, positions=positions)


def _require_room(bench: Bench, positions: int) -> None:
    if positions > bench.model.config.get_text_config().max_position_embeddings:
        pytest.skip(f"this model has no {positions} positions")
