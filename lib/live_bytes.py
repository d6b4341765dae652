"""Which tensors are alive at the moment a program needs most memory, and how many bytes they hold.

A dispatch mode sees every tensor an operation returns. Each *storage* is counted once, from the operation that made it
until it is freed; views and in-place results add nothing. Freed is exact, not inferred: a weak reference to the
storage fires when its last owner lets go, whether that is a Python name, an autograd graph or a cache. What existed
before tracking began (weights, inputs) is the baseline and is not counted.

Not seen: scratch space that a kernel takes and returns inside one operation, an allocator's rounding, and storages
resized behind the dispatcher. ``allocator_peak_bytes`` reads the CUDA allocator for those; on a CPU there is none.
Works on any device: storages are counted, not addresses.
"""

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# These return a storage made outside the dispatcher (``torch.tensor([...])``) while naming it as their input.
FRESH_DESPITE_INPUT = frozenset({"aten.lift_fresh.default", "aten.lift.default"})
T = TypeVar("T")

MACHINERY = ("torch.", "contextlib", "functools", __name__)  # frames that never are the author of a tensor


@dataclass(frozen=True)
class Allocation:
    """One storage: the operation that made it, the shape it was made with, its bytes, and the code that asked.

    where: qualified name of the innermost function outside torch, e.g. ``Qwen2MLP.forward``.
    """

    op: str
    where: str
    shape: tuple[int, ...]
    dtype: str
    storage_bytes: int


@dataclass(frozen=True)
class Peak:
    """The fullest moment of a program, the first of several equal ones. ``alive`` sums to ``live_bytes`` exactly.

    end_bytes: still alive when it was read. allocated_bytes: everything ever allocated, freed or not.
    """

    live_bytes: int
    alive: tuple[Allocation, ...]
    end_bytes: int
    allocated_bytes: int

    def by_kind(self, classify: Callable[[Allocation], str]) -> dict[str, int]:
        """Bytes alive at the peak per class, largest first; the values sum to ``live_bytes``."""
        sums: dict[str, int] = {}
        for allocation in self.alive:
            kind = classify(allocation)
            sums[kind] = sums.get(kind, 0) + allocation.storage_bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Context manager that tracks live storages; ``peak()`` may be read during or after.

    >>> with LiveBytes() as tracker:
    ...     result = program()
    >>> tracker.peak().live_bytes
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._alive: dict[int, tuple[weakref.ref[Any], Allocation]] = {}
        self._current = 0
        self._allocated = 0
        self._peak_bytes = 0
        self._peak_alive: tuple[Allocation, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        known = set() if str(func) in FRESH_DESPITE_INPUT else {_key(t) for t in _tensors((args, kwargs))}
        grew = False
        for tensor in _tensors(result):
            grew |= self._see(tensor, str(func), known)
        if grew and self._current > self._peak_bytes:
            self._peak_bytes = self._current
            self._peak_alive = tuple(allocation for _, allocation in self._alive.values())
        return result

    def peak(self) -> Peak:
        """The fullest moment so far."""
        return Peak(self._peak_bytes, self._peak_alive, self._current, self._allocated)

    def _see(self, tensor: Tensor, op: str, inputs: set[int]) -> bool:
        """Count the tensor's storage if it is new or has grown; True if the live total rose."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._alive:
            return self._resized(key, size)
        if key in inputs:  # an alias of something older than the tracking
            return False
        made = Allocation(op, _author(), tuple(tensor.shape), str(tensor.dtype), size)
        self._alive[key] = (weakref.ref(storage, lambda _: self._freed(key)), made)
        self._current += size
        self._allocated += size
        return True

    def _resized(self, key: int, size: int) -> bool:
        reference, made = self._alive[key]
        growth = size - made.storage_bytes
        if growth:
            resized = Allocation(made.op, made.where, made.shape, made.dtype, size)
            self._alive[key] = (reference, resized)
            self._current += growth
            self._allocated += max(growth, 0)
        return growth > 0

    def _freed(self, key: int) -> None:
        self._current -= self._alive.pop(key)[1].storage_bytes


def peak_of(program: Callable[[], T]) -> tuple[T, Peak]:
    """Run the program once; its result and its peak. The result counts as alive until the program has returned."""
    gc.collect()  # garbage of earlier work must not be freed halfway through
    with LiveBytes() as tracker:
        result = program()
        peak = tracker.peak()
    return result, peak


def allocator_peak_bytes(program: Callable[[], object], device: torch.device, cuda: Any = torch.cuda) -> int | None:
    """The CUDA allocator's peak over what was resident before, in bytes; None where there is no such allocator.

    cuda: the module torch.cuda, or something with its synchronize, memory_allocated, reset_peak_memory_stats and
    max_memory_allocated. What the allocator rounds up counts: blocks of 512 bytes, larger ones above 1 MiB.
    """
    if device.type != "cuda":
        return None
    gc.collect()
    cuda.synchronize(device)
    resident = int(cuda.memory_allocated(device))
    cuda.reset_peak_memory_stats(device)
    program()
    cuda.synchronize(device)
    return int(cuda.max_memory_allocated(device)) - resident


def _tensors(tree: object) -> Iterator[Tensor]:
    leaves: Iterable[object] = tree_leaves(tree)
    return (leaf for leaf in leaves if isinstance(leaf, Tensor))


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _author() -> str:
    """Qualified name of the innermost function that is not torch's own, or ``?`` (a backward pass has none)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(MACHINERY) and module != "torch":
            return frame.f_code.co_qualname
        frame = frame.f_back
    return "?"
