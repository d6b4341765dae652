"""Parts of a whole run that used to be done over and over. `pytest claims/ -m slow --benchmark-only -k whole_run`.

Before and after, in seconds, of `pytest claims/test_quality.py claims/test_weights.py -m "not timing"`, alone on two
cores (AVX-512, fp32 products at some 320 GFLOP/s), one run each, all 26 claims equal to the last bit:

| what was changed | where it shows | before | after |
|---|---|---|---|
| errors are summed while a scheme is put in place | set-up of weights.error-ladder | 12.0 | 5.7 |
| the same, for the table of NF4's gain | quality.granularity-is-all | 22.7 | 18.3 |
| the head is looked at once; whole distributions on one text, not two | quality.quality-table | 122.8 | 121.8 |
| all of it | the whole command | 176.0 | 164.7 |

Then, of one pass over 16 windows of 128 tokens, in one process after two passes that warm it up, three processes each:

| what was changed | before | after |
|---|---|---|
| freed memory stays with the process (fixtures/allocator.py) | 6.2 to 6.6 s, a million page faults | 5.4 s, none |

A pass over the model is products for nine tenths of its time (torch.profiler, 1,024 tokens: 88 %), at the rate of bare
ones: what is left to save there are passes, not what lies between them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture
    from torch import Tensor

    from fixtures.loading import LoadedModel
    from lib.quantization.errors import ErrorTable

SCHEMES_OF_THE_LADDER = ("int8-row", "int4-g128", "nf4-b64")
ROUNDS = 3
WINDOWS, TOKENS = 16, 128


@pytest.mark.slow
@pytest.mark.parametrize("slug", SCHEMES_OF_THE_LADDER)
def test_errors_beside_the_swap(
    benchmark: BenchmarkFixture, loaded_model: LoadedModel, projections: dict[str, Tensor], slug: str
) -> None:
    """A scheme put in place and its errors in one go, against the error table's pass of its own; equal to the bit."""
    from lib.quantization.errors import error_table
    from lib.quantization.schemes import SCHEMES
    from lib.quantization.swap import WeightSwap

    scheme, swap = SCHEMES[slug], WeightSwap(loaded_model.model)

    def put_in_place() -> None:
        with swap.quantized(scheme):
            pass

    benchmark.pedantic(put_in_place, rounds=ROUNDS, warmup_rounds=1)
    apart, seconds = _timed(lambda: error_table([scheme], projections))
    benchmark.extra_info["pass_of_its_own_s"] = seconds
    assert swap.errors[scheme] == apart.errors[slug]  # noqa: S101


@pytest.mark.slow
def test_look_at_the_head(benchmark: BenchmarkFixture, loaded_model: LoadedModel) -> None:
    """What every scheme's visit spent on finding that the output embedding is still the same."""
    from lib.scoring import open_head

    benchmark.pedantic(lambda: open_head(loaded_model.model), rounds=ROUNDS, warmup_rounds=1)


@pytest.mark.slow
def test_a_long_pass(benchmark: BenchmarkFixture, loaded_model: LoadedModel) -> None:
    """What the quality table consists of, and the pages that the system had to find for it."""
    import resource

    import torch

    from lib.decoding import random_tokens

    ids = random_tokens(WINDOWS * TOKENS, loaded_model.model.config.vocab_size).view(WINDOWS, TOKENS)

    @torch.no_grad()
    def read() -> None:
        loaded_model.model.base_model(input_ids=ids, use_cache=False)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    benchmark.pedantic(read, rounds=ROUNDS, warmup_rounds=2)
    benchmark.extra_info["page_faults_a_pass"] = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // ROUNDS


def _timed(action: Callable[[], ErrorTable]) -> tuple[ErrorTable, float]:
    """What an action returns, and the median of a few times in seconds."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        found = action()
        seconds.append(time.perf_counter() - started)
    return found, statistics.median(seconds)
