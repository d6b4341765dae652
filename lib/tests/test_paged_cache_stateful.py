"""The paged cache against a plain model of it: random histories without a fault, and planted faults that are found."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from lib.paged_cache.pool import OutOfBlocks
from lib.tests.paged_cache_faults import FAULTS, faulty_cache
from lib.tests.paged_cache_machine import PagedCacheMachine

STEPS = 30
WRONG = (AssertionError, pytest.fail.Exception, ValueError, KeyError, IndexError, OutOfBlocks)
# Faults are looked for in a fixed sequence of histories and the first one found is enough: no shrinking, no database.
HUNT = settings(
    max_examples=400, stateful_step_count=STEPS, deadline=None, database=None, derandomize=True,
    phases=[Phase.generate], report_multiple_bugs=False,
)  # fmt: skip


def test_random_histories_against_the_plain_model() -> None:
    run_state_machine_as_test(
        PagedCacheMachine, settings=settings(max_examples=60, stateful_step_count=STEPS, deadline=None)
    )


@pytest.mark.slow
def test_a_thousand_random_histories_against_the_plain_model() -> None:
    run_state_machine_as_test(
        PagedCacheMachine,
        settings=settings(max_examples=1_000, stateful_step_count=STEPS, deadline=None, database=None),
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_histories_find_a_planted_fault(fault: str) -> None:
    planted = type("Planted", (PagedCacheMachine,), {"build": staticmethod(faulty_cache(FAULTS[fault]))})
    with pytest.raises(WRONG):
        run_state_machine_as_test(planted, settings=HUNT)


def test_the_way_faults_are_planted_is_no_fault() -> None:
    unharmed = type("Unharmed", (PagedCacheMachine,), {"build": staticmethod(faulty_cache({}))})
    run_state_machine_as_test(unharmed, settings=settings(HUNT, max_examples=60))
