"""GPTQ (Frantar et al. 2022, arXiv:2210.17323): each column's rounding error is made good by the columns after it.

With H = X^T X the output error of rounding is the quadratic form of H in the weights' change. When column j is rounded,
the best change of the columns still free is -e H^-1[j, j:] / H^-1[j, j], with H the part of the free columns; all those
rows are the rows of the upper Cholesky factor U of the whole H^-1, and the error paid is the sum of (e_j / U_jj)².
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lib.quantization import absmax, affine
from lib.quantization.calibration import require_finite
from lib.quantization.schemes import Quantized, Scheme


@dataclass(frozen=True)
class Procedure:
    """How GPTQ goes about it, by default as in the paper.

    damping: added to H's diagonal, as a part of its mean. block: columns between two updates of all later ones, which
    changes speed alone. sort: columns by falling diagonal of H, with the scales of the original groups, instead of
    from left to right with a group's scale set when its turn comes.
    """

    damping: float = 0.01
    block: int = 128
    sort: bool = False


PAPER = Procedure()


def inverse_factor(gram: Tensor, damping: float = PAPER.damping) -> Tensor:
    """Upper triangular U (K, K), fp64, with U^T U the inverse of the damped gram matrix (K, K).

    A channel that was always zero gets the mean of the others' diagonal: it is rounded by itself. U comes from
    factoring H from its last column on, H = R R^T with R = U^-1, so that H is never inverted. Raises NotFiniteError,
    and ValueError if H is not positive definite.
    """
    require_finite("gram matrix", gram)
    hessian = gram.to(torch.float64, copy=True)
    diagonal = hessian.diagonal()
    live = diagonal > 0
    mean = float(diagonal[live].mean()) if bool(live.any()) else 1.0
    diagonal[~live] = mean
    diagonal += damping * mean
    reverse, failed = torch.linalg.cholesky_ex(hessian.flip(0, 1))
    if int(failed):
        raise ValueError(f"the gram matrix is not positive definite at a damping of {damping}")
    identity = torch.eye(len(gram), dtype=torch.float64)
    factor: Tensor = torch.linalg.solve_triangular(reverse.flip(0, 1), identity, upper=True)
    return factor


def gptq(weights: Tensor, gram: Tensor, scheme: Scheme, how: Procedure = PAPER) -> Tensor:
    """The reconstruction (R, K), fp32, of weights (R, K) for inputs with this gram matrix X^T X (K, K).

    The scheme's codes must be evenly spaced. Raises NotFiniteError and ValueError.
    """
    if scheme.code not in ("absmax", "affine") or how.block < 1:
        raise ValueError(
            f"{scheme.slug}, block {how.block}: needs evenly spaced codes and at least one column at a time"
        )
    require_finite("weights", weights)
    columns = weights.shape[1]
    order = gram.diagonal().argsort(descending=True, stable=True) if how.sort else torch.arange(columns)
    factor = inverse_factor(gram[order][:, order], how.damping).float()
    work = weights.detach().float().T[order].contiguous()  # a row per column of the matrix: what a step reads
    grids = _Grids(scheme, weights.detach().float(), order if how.sort else None)
    rebuilt = _sweep(work, factor, grids, _block_width(how.block, grids.group, columns))
    return rebuilt[order.argsort()].T.contiguous()


def _sweep(work: Tensor, factor: Tensor, grids: _Grids, width: int) -> Tensor:
    """Round the rows of work (K, R) in order, each error passed on: at once in its block, then to all later rows."""
    rebuilt = torch.empty_like(work)
    for start in range(0, len(work), width):
        stop = min(start + width, len(work))
        errors = torch.empty_like(work[start:stop])
        for j in range(start, stop):
            rebuilt[j] = grids.nearest(j, work)
            errors[j - start] = (work[j] - rebuilt[j]) / factor[j, j]
            work[j + 1 : stop] -= torch.outer(factor[j, j + 1 : stop], errors[j - start])
        work[stop:] -= factor[start:stop, stop:].T @ errors
    return rebuilt


def _block_width(block: int, group: int, columns: int) -> int:
    """A width at which every group starts at a block's start or lies within one: its weights are then up to date."""
    if group >= columns or group % block == 0:
        return block
    return group * max(1, block // group)


class _Grids:
    """The scales (and zero points) of a matrix's groups, set when a group's first column comes, or all beforehand."""

    def __init__(self, scheme: Scheme, weights: Tensor, order: Tensor | None) -> None:
        self.group = scheme.group if isinstance(scheme.group, int) else weights.shape[1]
        self._scheme, self._order = scheme, order
        self._shared = scheme.shared_scale(weights)
        self._found: list[Quantized] = (
            [] if order is None else [self._grid(g) for g in torch.split(weights, self.group, 1)]
        )

    def _grid(self, part: Tensor) -> Quantized:
        return self._scheme.quantize_groups(part.contiguous(), self._shared)

    def nearest(self, j: int, work: Tensor) -> Tensor:
        """Row j of work (K, R), rounded."""
        if self._order is None and j % self.group == 0:
            self._found.append(self._grid(work[j : j + self.group].T))
        place = j if self._order is None else int(self._order[j])
        grid, column = self._found[place // self.group], work[j, :, None]
        scales = grid.scales.float()
        if grid.zeros is None:
            return absmax.decode(absmax.encode(column, scales, self._scheme.bits), scales)[:, 0]
        codes = affine.encode(column, scales, grid.zeros, self._scheme.bits)
        return affine.decode(codes, scales, grid.zeros)[:, 0]
