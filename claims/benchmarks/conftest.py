"""What benchmarks share: on which device and in which format, and with whose limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # loaded by every session that collects this folder: torch only where something is timed
    from pytest_benchmark.fixture import BenchmarkFixture
    from transformers import PreTrainedModel

    from claims.benchmarks.bench import Bench
    from fixtures.loading import LoadedModel
    from lib.machine_limits import MachineLimits

WAIT_S = 120.0  # for another process that is timing something on this machine
TARGETS = (
    pytest.param(("cpu", "float32"), id="cpu-fp32"),
    pytest.param(("cuda", "float32"), id="cuda-fp32", marks=pytest.mark.gpu),
    pytest.param(("cuda", "float16"), id="cuda-fp16", marks=pytest.mark.gpu),
)


@pytest.fixture(scope="session", params=TARGETS)
def target(request: pytest.FixtureRequest, loaded_model: LoadedModel) -> PreTrainedModel:
    """The run's model on a device and in a format: itself where it is so already, else a copy."""
    import torch

    from lib.slim_models import cast_copy

    device, dtype = request.param[0], getattr(torch, request.param[1])
    model = loaded_model.model
    if (model.device.type, model.dtype) == (device, dtype):
        return model
    return cast_copy(model, dtype).to(device)


@pytest.fixture(scope="session")
def limits_of() -> Callable[[str], MachineLimits]:
    """The limits of a device class, measured when first asked for."""
    import torch

    from lib.machine_limits import machine_limits
    from lib.timing.clock import clock_for

    return cache(lambda kind: machine_limits(torch.device(kind), clock_for(torch.device(kind))))


@pytest.fixture
def bench(
    benchmark: BenchmarkFixture,
    model: PreTrainedModel,  # not timed itself: it is here to be found unchanged afterwards
    target: PreTrainedModel,
    limits_of: Callable[[str], MachineLimits],
) -> Iterator[Bench]:
    """Times passes of the target, with the machine's lock held."""
    from claims.benchmarks.bench import Bench
    from lib.timing.clock import clock_for
    from lib.timing.exclusive import MachineTaken, exclusive

    try:
        with exclusive(WAIT_S):
            yield Bench(benchmark, target, limits_of(target.device.type), clock_for(target.device))
    except MachineTaken as error:
        pytest.skip(str(error))
