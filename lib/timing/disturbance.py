"""What else the machine was doing while something was timed.

Two witnesses, neither of which sees the time that is being judged, so that choosing samples by them bends nothing:
how long this process's threads were ready to run and had to wait for a core (Linux counts that per thread, second field
of /proc/<pid>/task/<tid>/schedstat; sleeping does not count), and a small fixed workload run just before each sample,
which is slow too when memory or clock frequency are taken away from outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

NS_PER_S = 1e9
TASKS = Path("/proc/self/task")
# Half of a limit-sized layer's work: a product of 4.5 GFLOP and one pass over 128 MB, some 25 ms on two cores.
ROWS, INNER, COLUMNS, READ_VALUES = 512, 896, 4864, 2**25


def waited_seconds(tasks: Path = TASKS) -> float | None:
    """Seconds that all threads of this process have waited for a core so far; None where nobody counts that."""
    try:
        return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks.iterdir()) / NS_PER_S
    except (OSError, IndexError, ValueError):  # another system, or a thread that ended while we were reading
        return None


def waiting_share(before: float | None, after: float | None, thread_seconds: float) -> float:
    """What two readings of `waited_seconds` say of so much time of all threads together.

    0 where nobody counts waiting, NaN (never quiet) where a thread ended in between or no time passed.
    """
    if before is None and after is None:
        return 0.0
    if before is None or after is None or after < before or thread_seconds <= 0:
        return math.nan
    return (after - before) / thread_seconds


def reference_workload(device: torch.device) -> Callable[[], object]:
    """A fixed product and a fixed read on the device, to be timed beside whatever is timed."""
    left, right = torch.ones(ROWS, INNER, device=device), torch.ones(INNER, COLUMNS, device=device)
    values = torch.ones(READ_VALUES, device=device)

    def work() -> object:
        return torch.mm(left, right), values.sum()

    return work
