"""Latency by its named definitions, against figures worked out by hand for one small schedule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.scheduling.cost import constant
from lib.scheduling.latency import DEFINITIONS, Heard, Latency, Moment, Per, mean_of_ratios, mean_ratio
from lib.scheduling.policies import CONTINUOUS, STATIC
from lib.scheduling.requests import Request, at_once
from lib.scheduling.simulate import simulate
from lib.scheduling.times import Times, throughput_ratio

# Two slots; static: {4, 1} until 4, then {2} until 6. Continuous: the third takes the second's slot at 1, until 3.
REQUESTS = [Request(0, 0, 4), Request(0, 0, 1), Request(0, 0, 2)]


def run(policy, requests=None) -> Times:
    return simulate(requests or REQUESTS, policy, constant(8), 2).times


BY_HAND = {  # per request: static, continuous
    "arrival to answer, returned together": ([4, 4, 6], [4, 1, 3]),
    "arrival to answer, each when done": ([4, 1, 6], [4, 1, 3]),
    "admission to answer, returned together": ([4, 4, 2], [4, 1, 2]),
    "admission to answer, each when done": ([4, 1, 2], [4, 1, 2]),
    "time to first token, returned together": ([4, 4, 6], [1, 1, 2]),
    "time to first token, streamed": ([1, 1, 5], [1, 1, 2]),
    "time in the queue": ([0, 0, 4], [0, 0, 1]),
    "arrival to answer per token, returned together": ([1, 4, 3], [1, 1, 1.5]),
    "admission to answer per token, returned together": ([1, 4, 1], [1, 1, 1]),
    "time per further token, streamed": ([1, np.nan, 1], [1, np.nan, 1]),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions_against_a_schedule_written_out(name: str) -> None:
    definition, (static, continuous) = DEFINITIONS[name], BY_HAND[name]
    streaming = Latency(definition.start, definition.end, Heard.STREAMED, definition.per)
    np.testing.assert_array_equal(definition.of(run(STATIC)), static)
    np.testing.assert_array_equal(streaming.of(run(CONTINUOUS)), continuous)
    ratio = np.nanmean(static) / np.nanmean(continuous)
    assert mean_ratio(definition, run(STATIC), run(CONTINUOUS)) == pytest.approx(ratio, rel=1e-15)


def test_definitions_reject_a_latency_that_forgets_the_queue() -> None:
    whole, in_service = (DEFINITIONS[f"{start} to answer, returned together"] for start in ("arrival", "admission"))
    assert whole.mean(run(STATIC)) != in_service.mean(run(STATIC))
    difference = whole.of(run(STATIC)) - in_service.of(run(STATIC))
    assert (difference == DEFINITIONS["time in the queue"].of(run(STATIC))).all()


def test_mean_of_ratios_against_the_ratio_of_means() -> None:
    definition = DEFINITIONS["admission to answer, returned together"]
    assert mean_of_ratios(definition, run(STATIC), run(CONTINUOUS)) == (1 + 4 + 1) / 3
    assert mean_ratio(definition, run(STATIC), run(CONTINUOUS)) == 10 / 7


def test_per_token_pooled_against_the_mean_of_ratios() -> None:
    per_token = DEFINITIONS["arrival to answer per token, returned together"]
    assert per_token.mean(run(STATIC)) == (1 + 4 + 3) / 3
    assert per_token.pooled(run(STATIC)) == 14 / 7


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=16))
def test_pooled_per_token_ratio_is_the_ratio_of_mean_latencies(lengths: list[int]) -> None:
    static, continuous = run(STATIC, at_once(lengths)), run(CONTINUOUS, at_once(lengths))
    per_token = DEFINITIONS["arrival to answer per token, returned together"]
    pooled = per_token.pooled(static) / Latency(per_token.start, per_token.end, Heard.STREAMED, per_token.per).pooled(
        continuous
    )
    whole = mean_ratio(DEFINITIONS["arrival to answer, returned together"], static, continuous)
    assert pooled == pytest.approx(float(whole), rel=1e-14)


def test_nobody_waits_under_either_policy_is_a_ratio_of_one() -> None:
    apart = [Request(0, 0, 2), Request(9, 0, 2)]
    queue = DEFINITIONS["time in the queue"]
    assert mean_ratio(queue, run(STATIC, apart), run(CONTINUOUS, apart)) == 1
    beside = [Request(0, 0, 5), Request(1, 0, 2)]
    assert mean_ratio(queue, run(STATIC, beside), run(CONTINUOUS, beside)) == np.inf


def test_a_request_without_tokens_has_no_latency_per_token() -> None:
    per_token = Latency(Moment.ARRIVAL, Moment.LAST, per=Per.OUTPUT)
    latencies = per_token.of(run(CONTINUOUS, at_once([0, 2])))
    assert np.isnan(latencies[0]) and latencies[1] == 1
    assert per_token.mean(run(CONTINUOUS, at_once([0, 2]))) == 1


def test_runs_of_different_requests_are_not_compared() -> None:
    with pytest.raises(ValueError, match="same requests"):
        throughput_ratio(run(CONTINUOUS), run(STATIC, at_once([1, 1, 5])))
