"""Work spread over the cores by items instead of within each operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def map_on_cores(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """function(item) for every item, in order, on as many threads as torch uses, each with single-threaded operations.

    Pieces of a megabyte are too small to split: two threads meeting at the end of every operation lose more than
    they win, and ten times as much when anything else runs on a core. The caller's own thread count is left as it was.
    """
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(function, items))
    finally:
        torch.set_num_threads(threads)  # for threads that start later: the workers' 1 is their default otherwise
