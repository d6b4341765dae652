"""What each technique gives back: the output error of a linear layer on held-out inputs, beside plain rounding's.

The error is ||Y - Ŷ|| / ||Y|| over all outputs of a layer, Y = X W^T in fp32 and without the bias, which every variant
adds unrounded. Two families that must not be compared across: techniques that round weights alone (inputs stay as
they are) and those that round weights and inputs to 8 bits and multiply integers. In each the first is the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from lib.quantization.awq import awq, awq_bits_per_weight
from lib.quantization.calibration import ALL, InputStatistics, Keep, collect, portions, require_finite
from lib.quantization.errors import relative_error
from lib.quantization.gptq import PAPER, gptq
from lib.quantization.mixed import int8_product, mixed_bits_per_weight, mixed_product, outlier_columns
from lib.quantization.schemes import SCHEMES, Scheme
from lib.quantization.smoothquant import column_max, migration_factors, smooth_product
from lib.weight_stats import projection_weights

Rebuild = Callable[[Tensor, InputStatistics, Scheme], Tensor]
"""Weights (R, K), what was seen of their inputs, a scheme → the reconstruction (R, K)."""

Multiply = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Inputs (n, K), weights (R, K), SmoothQuant's factors (K,) → outputs (n, R)."""


@dataclass(frozen=True)
class Recovery:
    """One layer under one technique. input_bits: 8 or, where inputs are left alone, 32.

    relative_error: over all outputs together, so that one token of huge inputs may decide it. token_error: the median
    over tokens of each one's own relative error.
    """

    relative_error: float
    token_error: float
    bits_per_weight: float
    input_bits: int


@dataclass(frozen=True)
class Corpora:
    """Batches of ids (B, T) without padding: what techniques are calibrated on, and what they are judged on."""

    calibration: Sequence[Tensor]
    held_out: Sequence[Tensor]


def _gptq(weights: Tensor, seen: InputStatistics, scheme: Scheme, sort: bool = False) -> Tensor:
    if seen.gram is None:
        raise ValueError("GPTQ needs the gram matrix of the inputs: collect it")
    return gptq(weights, seen.gram, scheme, replace(PAPER, sort=sort))


def smoothing(weights: Mapping[str, Tensor], seen: Mapping[str, InputStatistics]) -> dict[str, Tensor]:
    """SmoothQuant's factors (K,) for each of these layers, one set for all that share a record of their inputs."""
    readers: dict[int, list[Tensor]] = {}
    for name, record in seen.items():
        readers.setdefault(id(record), []).append(weights[name])
    return {n: migration_factors(r.largest, column_max(*readers[id(r)])) for n, r in seen.items()}


WEIGHT_TECHNIQUES: Mapping[str, Rebuild] = MappingProxyType(
    {
        "rtn": lambda weights, seen, scheme: scheme.reconstruct(weights),
        "awq": lambda weights, seen, scheme: awq(weights, seen.mean_abs, seen.rows, scheme).weights,
        "gptq": _gptq,
        "gptq-sorted": lambda weights, seen, scheme: _gptq(weights, seen, scheme, sort=True),
    }
)
"""Rounding to nearest, AWQ, GPTQ from left to right and by falling magnitude of the inputs."""

PRODUCT_TECHNIQUES: Mapping[str, Multiply] = MappingProxyType(
    {
        "int8-tensor": lambda inputs, weights, factors: int8_product(inputs, weights, per_token=False),
        "int8-token": lambda inputs, weights, factors: int8_product(inputs, weights),
        "mixed": lambda inputs, weights, factors: mixed_product(inputs, weights),
        "smooth-tensor": lambda inputs, weights, factors: smooth_product(inputs, weights, factors, False),
        "smooth-token": smooth_product,
    }
)
"""8-bit weights per row and inputs with one scale in all or one per token: plain, LLM.int8()'s, smoothed."""


def weight_recovery(
    weights: Tensor, seen: InputStatistics, held_out: Tensor, scheme: Scheme, names: Iterable[str] = WEIGHT_TECHNIQUES
) -> dict[str, Recovery]:
    """Each weight technique on weights (R, K): calibrated on what was seen, judged on held-out inputs (n, K)."""
    require_finite("held-out inputs", held_out)
    exact = linear(held_out, weights)
    found = {}
    for name in names:
        outputs = linear(held_out, WEIGHT_TECHNIQUES[name](weights, seen, scheme))
        bits = weight_bits(name, weights, scheme)
        found[name] = Recovery(relative_error(exact, outputs), token_error(exact, outputs), bits, 32)
    return found


def product_recovery(
    weights: Tensor, factors: Tensor, held_out: Tensor, names: Iterable[str] = PRODUCT_TECHNIQUES
) -> dict[str, Recovery]:
    """Each technique that rounds inputs too, on weights (R, K) and held-out inputs (n, K) taken as one batch."""
    require_finite("held-out inputs", held_out)
    exact = linear(held_out, weights)
    found = {}
    for name in names:
        outputs = PRODUCT_TECHNIQUES[name](held_out, weights, factors)
        bits = product_bits(name, weights, held_out)
        found[name] = Recovery(relative_error(exact, outputs), token_error(exact, outputs), bits, 8)
    return found


def token_error(exact: Tensor, outputs: Tensor) -> float:
    """Median over rows (n, R) of ||y - ŷ|| / ||y||, the lower one of two; rows of zeros rebuilt as zeros count as 0."""
    lost, norms = (exact - outputs).norm(dim=1), exact.norm(dim=1)
    return float(torch.where(lost == 0, lost, lost / norms).median())


def weight_bits(name: str, weights: Tensor, scheme: Scheme) -> float:
    """Stored bits per weight of a weight technique: the scheme's, AWQ's with a scale per column."""
    rows, columns = weights.shape
    return awq_bits_per_weight(scheme, rows, columns) if name == "awq" else scheme.bits_per_weight(rows, columns)


def product_bits(name: str, weights: Tensor, inputs: Tensor) -> float:
    """Stored bits per weight: 8 and a scale per row; with 16 for the columns that are outliers in these inputs."""
    rows, columns = weights.shape
    if name == "mixed":
        return mixed_bits_per_weight(rows, columns, int(outlier_columns(inputs).sum()))
    return SCHEMES["int8-row"].bits_per_weight(rows, columns)


def recovered(table: Mapping[str, Recovery], plain: str, name: str) -> float:
    """Which part of the plain variant's error a technique takes away: 1 all, 0 none, below 0 it adds some.

    Raises ValueError if the plain variant leaves no error to take away.
    """
    before = table[plain].relative_error
    if not before > 0:
        raise ValueError(f"{plain} leaves no error: nothing to recover")
    return 1 - table[name].relative_error / before


@torch.no_grad()
def model_recovery(
    model: nn.Module, corpora: Corpora, scheme: Scheme, names: Iterable[str] | None = None, keep: Keep = ALL
) -> dict[str, dict[str, Recovery]]:
    """All techniques on every projection (or the named ones), by layer and technique.

    Layers are taken in lots that keep to the limit, each costing one pass over both corpora; SmoothQuant's factors,
    which layers of different lots may share, take one more. Judged on as many rows as calibration keeps.
    """
    wanted = None if names is None else set(names)
    weights = projection_weights(model)
    factors = smoothing(weights, collect(model, corpora.calibration, keep=replace(keep, rows=1, gram=False)))
    table = {}
    for lot in portions(model, keep.limit_bytes, keep.rows):
        layers = [name for name in lot if wanted is None or name in wanted]
        seen = collect(model, corpora.calibration, layers, keep) if layers else {}
        fresh = collect(model, corpora.held_out, layers, replace(keep, gram=False)) if layers else {}
        for name in layers:
            inputs = fresh[name].rows
            matrix = weights[name].to("cpu", torch.float32)
            alone = weight_recovery(matrix, seen[name], inputs, scheme)
            table[name] = alone | product_recovery(matrix, factors[name], inputs)
    return table


@torch.no_grad()
def rebuilt_weights(
    model: nn.Module, calibration: Sequence[Tensor], scheme: Scheme, technique: str, keep: Keep = ALL
) -> dict[str, Tensor]:
    """Every projection as one weight technique rebuilds it, (R, K) fp32, in lots as above; as much memory as a model.

    Each layer is calibrated on the inputs that the unrounded model gives it.
    """
    weights = projection_weights(model)
    rebuilt: dict[str, Tensor] = {}
    for lot in portions(model, keep.limit_bytes, keep.rows):
        seen = collect(model, calibration, lot, keep)
        rebuilt |= {name: WEIGHT_TECHNIQUES[technique](weights[name], seen[name], scheme) for name in lot}
    return rebuilt
