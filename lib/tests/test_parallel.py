"""Work over cores: order, thread counts, errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from lib.parallel import map_on_cores


def test_results_come_in_order_from_single_threaded_workers() -> None:
    found = map_on_cores(lambda n: (n, torch.get_num_threads()), range(50))
    assert found == [(n, 1) for n in range(50)]


def test_the_callers_thread_count_is_left_alone() -> None:
    before = torch.get_num_threads()
    map_on_cores(abs, [1])
    assert torch.get_num_threads() == before


def test_an_error_in_a_worker_reaches_the_caller_and_restores_the_threads() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        map_on_cores(lambda n: 1 / n, [1, 0])
    assert torch.get_num_threads() == before
    assert map_on_cores(lambda _: torch.get_num_threads(), [0]) == [1]


def test_threads_that_start_later_have_the_callers_number() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        map_on_cores(abs, [1])
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)
