"""What the linear layers of a model read on a small corpus: ranges, magnitudes, second moments and a few rows.

This is all that the calibrated techniques need: SmoothQuant the largest magnitude of every input channel, AWQ the mean
magnitude and some rows, GPTQ the second moments X^T X (its Hessian up to a factor, which it does not depend on).
Inputs are read from the model as it is: no layer sees what quantizing the layers before it would have done.
A pass ends when the last layer of interest has been reached; what comes after it costs nothing.

Memory is bounded: layers that read the very same tensor (queries, keys and values; gate and up) share one record, rows
are a random sample of fixed size, and X^T X, (K, K) per record, counts against a limit; `portions` cuts a model's
layers into lots that keep to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lib.quantization.absmax import NotFiniteError, all_finite
from lib.weight_stats import projection_weights

LIMIT_BYTES = 2**30  # of all records that are kept at a time
ROWS = 256  # of inputs, sampled for each record
FP32_BYTES = 4


EVERY_POSITION = slice(None)


class TooMuchToKeep(ValueError):
    """The records of these layers would not fit the limit."""


class _Reached(Exception):
    """Every layer of interest has run; the rest of the pass would be thrown away."""


@dataclass(frozen=True)
class Keep:
    """What to keep: so many rows, drawn with this seed; X^T X or not; at most so many bytes of the two."""

    rows: int = ROWS
    gram: bool = True
    limit_bytes: int = LIMIT_BYTES
    seed: int = 0


ALL = Keep()


@dataclass
class InputStatistics:
    """Of one tensor of inputs (count, K). Everything fp32 on the CPU, `total_abs` fp64.

    largest, low, high, total_abs: (K,), over all rows: largest magnitude, smallest and largest value, sum of
    magnitudes. rows: (at most the asked number, K), in order. gram: X^T X (K, K) over all rows, or None.
    """

    count: int
    largest: Tensor
    low: Tensor
    high: Tensor
    total_abs: Tensor
    rows: Tensor
    gram: Tensor | None

    @property
    def mean_abs(self) -> Tensor:
        """Mean magnitude of every channel, (K,)."""
        return (self.total_abs / self.count).float()

    @property
    def constant(self) -> Tensor:
        """Which channels had one and the same value in every row, zero included: (K,) bool."""
        return self.low == self.high


def require_finite(what: str, values: Tensor) -> None:
    """Raise NotFiniteError, saying what it was, if a value is NaN or infinite."""
    if not all_finite(values):
        raise NotFiniteError(f"{what}: NaN or infinite values, for which no scale exists")


def empty_statistics(columns: int, gram: bool) -> InputStatistics:
    """Of no rows at all."""
    infinite = torch.full((columns,), torch.inf)
    moments = torch.zeros(columns, columns) if gram else None
    total = torch.zeros(columns, dtype=torch.float64)
    return InputStatistics(0, torch.zeros(columns), infinite, -infinite, total, torch.empty(0, columns), moments)


def add_rows(statistics: InputStatistics, inputs: Tensor, keep: Tensor) -> None:
    """Count inputs (n, K) in, and keep a copy of those rows that `keep` (n,) bool names. Raises NotFiniteError."""
    require_finite("inputs", inputs)
    rows = inputs.detach().to("cpu", torch.float32)
    statistics.count += len(rows)
    statistics.low = torch.minimum(statistics.low, rows.amin(0))
    statistics.high = torch.maximum(statistics.high, rows.amax(0))
    statistics.largest = torch.maximum(statistics.low.abs(), statistics.high.abs())
    statistics.total_abs += rows.abs().sum(0, dtype=torch.float64)
    statistics.rows = torch.cat([statistics.rows, rows[keep]])
    if statistics.gram is not None:
        statistics.gram.addmm_(rows.T, rows)


def together(first: InputStatistics, second: InputStatistics) -> InputStatistics:
    """The statistics of two disjoint sets of rows as one."""
    low, high = torch.minimum(first.low, second.low), torch.maximum(first.high, second.high)
    return InputStatistics(
        first.count + second.count, torch.maximum(first.largest, second.largest), low, high,
        first.total_abs + second.total_abs, torch.cat([first.rows, second.rows]),
        None if first.gram is None or second.gram is None else first.gram + second.gram,
    )  # fmt: skip


def without_channels(statistics: InputStatistics, channels: Tensor) -> InputStatistics:
    """What would have been seen had these input channels (indices) been zero."""

    def silenced(values: Tensor, dim: int = -1) -> Tensor:
        return values.index_fill(dim, channels, 0)

    return InputStatistics(
        statistics.count, silenced(statistics.largest), silenced(statistics.low), silenced(statistics.high),
        silenced(statistics.total_abs), silenced(statistics.rows),
        None if statistics.gram is None else silenced(silenced(statistics.gram, 0)),
    )  # fmt: skip


def collect(
    model: nn.Module,
    batches: Sequence[Tensor],
    names: Iterable[str] | None = None,
    keep: Keep = ALL,
) -> dict[str, InputStatistics]:
    """Statistics of what linear layers read over batches of ids (B, T), none of them padding, by the layer's name.

    names: as `projection_weights` has them, all by default; the output head is not run. Rows to keep are drawn without
    replacement from all positions, the same for every layer. Layers that read one tensor get one object.
    Raises NotFiniteError naming the layer, TooMuchToKeep, and ValueError for no batches or a layer that did not run.
    """
    return collect_parts(model, batches, [EVERY_POSITION], names, keep)[0]


@torch.no_grad()
def collect_parts(
    model: nn.Module,
    batches: Sequence[Tensor],
    parts: Sequence[slice],
    names: Iterable[str] | None = None,
    keep: Keep = ALL,
) -> list[dict[str, InputStatistics]]:
    """The same of several parts of the positions 0 … T - 1 (the first one, all others), from one pass over the batches.

    Rows are drawn from all positions, and each part keeps those that lie in it. Raises as `collect` does.
    """
    wanted = set(projection_weights(model)) if names is None else set(names)
    chosen = _drawn(batches, keep)
    collectors = [_Collector(torch.cat([c[:, part].flatten() for c in chosen]), keep, part) for part in parts]
    _run(model, batches, wanted, collectors)
    missing = sorted(wanted - set(collectors[0].statistics))
    if missing:
        raise ValueError(f"no such layer, or it did not run: {', '.join(missing[:3])}")
    return [collector.statistics for collector in collectors]


def record_bytes(columns: int, rows: int = ROWS, gram: bool = True) -> int:
    """Bytes of the rows and of X^T X that one record over so many input channels keeps at most."""
    return FP32_BYTES * columns * (rows + (columns if gram else 0))


def portions(model: nn.Module, limit_bytes: int = LIMIT_BYTES, rows: int = ROWS) -> list[list[str]]:
    """All projections in order, in lots whose records fit the limit even if no two layers share one.

    Raises TooMuchToKeep if a single layer does not fit.
    """
    lots: list[list[str]] = []
    used = limit_bytes
    for name, weights in projection_weights(model).items():
        needed = record_bytes(weights.shape[1], rows)
        if needed > limit_bytes:
            raise TooMuchToKeep(f"{name} alone needs {needed} bytes, the limit is {limit_bytes}")
        if used + needed > limit_bytes:
            lots.append([])
            used = 0
        lots[-1].append(name)
        used += needed
    return lots


def _drawn(batches: Sequence[Tensor], keep: Keep) -> list[Tensor]:
    """Which rows to keep of each batch: (B, T) bool."""
    total = sum(ids.numel() for ids in batches)
    if total == 0 or keep.rows < 1:
        raise ValueError("calibration needs at least one token and one row to keep")
    chosen = torch.zeros(total, dtype=torch.bool)
    chosen[torch.randperm(total, generator=torch.Generator().manual_seed(keep.seed))[: keep.rows]] = True
    parts = torch.split(chosen, [ids.numel() for ids in batches])
    return [part.view(ids.shape) for part, ids in zip(parts, batches, strict=True)]


class _Collector:
    """Sorts what the hooks see of one part of the positions into records; one per tensor, whoever reads it."""

    def __init__(self, chosen: Tensor, keep: Keep, part: slice) -> None:
        self.statistics: dict[str, InputStatistics] = {}
        self._chosen, self._gram, self._room, self._part = chosen, keep.gram, keep.limit_bytes, part
        self._last: tuple[Tensor, InputStatistics] | None = None

    def forget_last(self) -> None:
        """A new pass begins: no tensor of the last one is read again."""
        self._last = None

    def see(self, name: str, inputs: Tensor) -> None:
        """One layer is about to read inputs (B, T, K)."""
        if self._last is not None and self._last[0] is inputs:
            self.statistics.setdefault(name, self._last[1])
            if self.statistics[name] is self._last[1]:
                return
        record = self._record(name, inputs.shape[-1])
        flat = inputs[:, self._part].reshape(-1, inputs.shape[-1])
        keep = self._chosen[record.count : record.count + len(flat)]
        if len(keep) < len(flat):
            raise ValueError(f"{name} ran more than once per pass: its rows cannot be told apart")
        try:
            add_rows(record, flat, keep)
        except NotFiniteError as error:
            raise NotFiniteError(f"{name}: {error}") from None
        self._last = (inputs, record)

    def _record(self, name: str, columns: int) -> InputStatistics:
        if name not in self.statistics:
            self._room -= record_bytes(columns, int(self._chosen.sum()), self._gram)
            if self._room < 0:
                raise TooMuchToKeep(f"{name}: the limit is passed; take fewer layers at a time (see portions)")
            self.statistics[name] = empty_statistics(columns, self._gram)
        return self.statistics[name]


def _run(model: nn.Module, batches: Sequence[Tensor], wanted: set[str], collectors: Sequence[_Collector]) -> None:
    unseen = set(wanted)

    def hook(name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def see(_module: nn.Module, args: tuple[Any, ...]) -> None:
            for collector in collectors:
                collector.see(name, args[0])
            unseen.discard(name)
            if not unseen:
                raise _Reached

        return see

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if name in wanted:
                hooks.callback(module.register_forward_pre_hook(hook(name)).remove)
        base = getattr(model, "base_model", model)
        device = next(model.parameters()).device
        for ids in batches:
            for collector in collectors:
                collector.forget_last()
            unseen.update(wanted)
            with suppress(_Reached):
                base(input_ids=ids.to(device), use_cache=False)
