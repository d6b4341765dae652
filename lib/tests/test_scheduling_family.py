"""The workload family against the four published figures, and the generators' shapes against one another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.scheduling.bounds import longest_of_groups, most_static_steps
from lib.scheduling.family import (
    PUBLISHED,
    SHAPES,
    Summary,
    draw,
    one_giant_per_group,
    poisson_arrivals,
    shared_out,
)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_draw_against_the_published_figures(shape: str) -> None:
    lengths = draw(shape, 500, seed=3)
    assert lengths.min() >= 1
    assert {Summary.of(row) for row in lengths} == {PUBLISHED} == {Summary(64, 18, 231, 1874)}


def test_figures_reject_a_draw_that_is_only_rescaled() -> None:
    random = np.random.default_rng(3)
    rescaled = random.lognormal(np.log(18), 1.0, (200, 64))
    rescaled = np.maximum(np.rint(rescaled / rescaled.sum(axis=1, keepdims=True) * 1874), 1).astype(int)
    assert not any(np.median(row) == 18 and row.max() == 231 and row.sum() == 1874 for row in rescaled)


def test_shapes_differ_in_what_the_figures_leave_open() -> None:
    second = {shape: float(np.mean(np.sort(draw(shape, 500, seed=3))[:, -2])) for shape in SHAPES}
    assert second["plateau"] < second["exponential"] < second["log-normal"] < second["few giants"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_is_random(shape: str) -> None:
    """The first place over 2,000 draws: its mean length is that of all places, within five standard errors."""
    first = draw(shape, 2000, seed=4)[:, 0]
    assert abs(first.mean() - 1874 / 64) <= 5 * first.std() / np.sqrt(2000)


def test_draws_are_seeded() -> None:
    assert (draw("plateau", 5, seed=1) == draw("plateau", 5, seed=1)).all()
    assert (draw("plateau", 5, seed=1) != draw("plateau", 5, seed=2)).any()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=12), st.integers(0, 300), st.integers(1, 40))
def test_sharing_out_against_its_total_and_cap(weights: list[float], total: int, cap: int) -> None:
    wanted = min(total, cap * len(weights))
    shared = shared_out(np.array([weights]), np.array([wanted]), np.array([cap]))
    assert shared.sum() == wanted
    assert shared.min() >= 0 and shared.max() <= cap


def test_sharing_out_against_proportions() -> None:
    assert shared_out(np.array([[1.0, 2.0, 7.0]]), np.array([20]), np.array([9])).tolist() == [[4, 7, 9]]


@pytest.mark.parametrize("total", [-1, 28])
def test_sharing_out_refuses_the_impossible(total: int) -> None:
    with pytest.raises(ValueError, match="no lengths add up"):
        shared_out(np.ones((1, 3)), np.array([total]), np.array([9]))


def test_impossible_summaries_are_refused() -> None:
    with pytest.raises(ValueError, match="no lengths add up"):
        draw("plateau", 2, 1, Summary(total=700))
    with pytest.raises(ValueError, match="even number"):
        draw("plateau", 2, 1, Summary(requests=63))
    with pytest.raises(ValueError, match="the median is"):
        Summary.of(np.array([1, 2]))


def test_poisson_arrivals_against_their_load() -> None:
    """Offered tokens per second over capacity: 2,000 · 64 gaps average to the load within five standard errors."""
    many = poisson_arrivals(draw("log-normal", 2000, seed=8), 0.6, 8.0, seed=9)
    offered = 1874 / many.arrival_s[:, -1].mean()
    assert abs(offered / 8.0 / 0.6 - 1) <= 5 / np.sqrt(2000 * 64)


def test_a_load_that_is_none_is_refused() -> None:
    for load, capacity in ((0.0, 8.0), (np.nan, 8.0), (0.5, -1.0)):
        with pytest.raises(ValueError, match="load of"):
            poisson_arrivals(np.ones((1, 2), dtype=int), load, capacity, 1)


def test_one_giant_per_group_against_the_most_that_static_batching_can_need() -> None:
    lengths = draw("few giants", 1, seed=2)[0]
    arranged = one_giant_per_group(lengths, 8)
    assert sorted(arranged) == sorted(lengths)
    assert sum(longest_of_groups(arranged.tolist(), 8)) == most_static_steps(lengths.tolist(), 8)


def test_a_median_of_one_token_leaves_no_gap_in_the_middle() -> None:
    told = Summary(requests=6, median=1, longest=9, total=18)
    assert {Summary.of(row) for row in draw("log-normal", 50, 1, told)} == {told}
