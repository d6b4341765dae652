"""GPTQ: against least squares column by column, enumeration of all codes, plain rounding, and its own error bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.quantization.absmax import NotFiniteError
from lib.quantization.gptq import PAPER, Procedure, gptq, inverse_factor
from lib.quantization.schemes import SCHEMES, Scheme

EVEN = ["int8-row", "int8-tensor", "int4-tensor", "int4-row", "int4-g32", "affine4-g32", "affine4-g64"]
SMALL_GROUPS = Scheme("int4-g16", "INT4, group of 16", "absmax", 4, 16)
# The inverse of a matrix of condition below 1e4 in fp64, relative to its largest entry: 1e-16 * 1e4 * 48 columns.
INVERSE_TOLERANCE = 1e-10
# Loss of codes found in fp32, over weights and factors with relative errors of 1e-7 each, summed over few columns.
LOSS_TOLERANCE = 1e-5


def layer(seed: int = 0, rows: int = 24, columns: int = 80, samples: int = 400) -> tuple[Tensor, Tensor]:
    """Weights (R, K) and correlated inputs (n, K): a few common causes and noise of their own."""
    generator = torch.Generator().manual_seed(seed)
    causes = torch.randn(samples, columns // 8, generator=generator)
    mixing = torch.randn(columns // 8, columns, generator=generator)
    inputs = causes @ mixing + 0.3 * torch.randn(samples, columns, generator=generator)
    return torch.randn(rows, columns, generator=generator) * 0.05, inputs


def gram_of(inputs: Tensor) -> Tensor:
    return inputs.T @ inputs


def loss(change: Tensor, gram: Tensor) -> Tensor:
    """Of every row, (R,) fp64: the quadratic form of the gram matrix."""
    wide = change.double()
    return ((wide @ gram.double()) * wide).sum(1)


def damped(gram: Tensor, damping: float = PAPER.damping) -> Tensor:
    return gram.double() + damping * gram.double().diagonal().mean() * torch.eye(len(gram), dtype=torch.float64)


def least_squares_gptq(weights: Tensor, hessian: Tensor, group: int) -> NDArray[np.float64]:
    """INT4 with fp16 scales per group of a row; after each column the rest is refitted by solving for it anew."""
    w, h = weights.double().numpy().copy(), hessian.numpy()
    rebuilt = np.zeros_like(w)
    for j in range(w.shape[1]):
        if j % group == 0:
            largest = np.abs(w[:, j : j + group].astype(np.float32)).max(1) / np.float32(7)
            scales = largest.astype(np.float16).astype(np.float64)
        rebuilt[:, j] = np.rint(w[:, j] / scales).clip(-7, 7) * scales
        if j + 1 < w.shape[1]:
            response = np.linalg.solve(h[j + 1 :, j + 1 :], h[j + 1 :, j])
            w[:, j + 1 :] -= np.outer(rebuilt[:, j] - w[:, j], response)
    return rebuilt


def unclipped_case(columns: int, seed: int, correlation: float = 0.95) -> tuple[Tensor, Tensor, float]:
    """40 rows of weights whose common scale is set by a last, far larger one; a gram matrix; and that scale."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(41, columns, generator=generator) * 6 - 3
    weights[40] = 7.0  # the scale is 7 / 7 = 1 and no other row comes near the ends
    gram = torch.full((columns, columns), correlation) + (1 - correlation) * torch.eye(columns)
    return weights, gram, 1.0


def test_factor_against_numpy_inverse() -> None:
    gram = gram_of(layer()[1])
    theirs = np.linalg.cholesky(np.linalg.inv(damped(gram).numpy())).T
    ours = inverse_factor(gram).numpy()
    assert np.abs(ours - theirs).max() <= INVERSE_TOLERANCE * np.abs(theirs).max()
    of_the_matrix_itself = np.linalg.cholesky(damped(gram).numpy()).T
    assert np.abs(ours - of_the_matrix_itself).max() > 0.1 * np.abs(theirs).max()


@pytest.mark.parametrize("slug", EVEN)
@pytest.mark.parametrize("sort", [False, True])
def test_uncorrelated_inputs_give_plain_rounding(slug: str, sort: bool) -> None:
    """Nothing to make good where no other column shares an input: equal bit for bit, 80 columns in groups of 32 too."""
    weights, scales = layer()[0], torch.linspace(0.1, 3, 80)
    for gram in (torch.eye(80), torch.diag(scales), 5 * torch.eye(80)):
        assert torch.equal(gptq(weights, gram, SCHEMES[slug], Procedure(sort=sort)), SCHEMES[slug].reconstruct(weights))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("scheme", [SMALL_GROUPS, SCHEMES["int4-row"]])
def test_reconstruction_against_least_squares(seed: int, scheme: Scheme) -> None:
    weights, inputs = layer(seed)
    gram = gram_of(inputs)
    group = scheme.group if isinstance(scheme.group, int) else 80
    expected = least_squares_gptq(weights, damped(gram), group)
    found = gptq(weights, gram, scheme).double().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # fp32 products of equal codes and scales: one rounding
    plain = scheme.reconstruct(weights).double().numpy()
    assert not np.allclose(plain, expected, rtol=1e-6)


@pytest.mark.parametrize("slug", ["int4-row", "int4-g32", "affine4-g32"])
def test_width_of_the_blocks_changes_nothing(slug: str) -> None:
    weights, inputs = layer()
    gram = gram_of(inputs)
    eager = gptq(weights, gram, SCHEMES[slug], Procedure(block=1))
    for block in (7, 16, 64, 128, 1000):
        lazy = gptq(weights, gram, SCHEMES[slug], Procedure(block=block))
        torch.testing.assert_close(lazy, eager, rtol=1e-6, atol=0)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_between_the_optimum_by_enumeration_and_the_bound(columns: int, seed: int) -> None:
    """No code beats the enumerated best; each column pays at most (half a step / U_jj)², as rounding is to nearest."""
    weights, gram, scale = unclipped_case(columns, seed)
    whole = Scheme("int4-tensor", "one scale", "absmax", 4, "tensor", torch.float32)
    found = loss(gptq(weights, gram, whole) - weights, damped(gram))[:40]
    codes = torch.tensor(list(product(range(-7, 8), repeat=columns))) * scale
    every = torch.stack([loss(code - weights, damped(gram)) for code in codes])
    best = every.amin(0)[:40]
    bound = float(((scale / 2) / inverse_factor(gram).diagonal()).square().sum())
    assert bool((found >= best * (1 - LOSS_TOLERANCE)).all())
    assert bool((found <= bound * (1 + LOSS_TOLERANCE)).all())
    plain = loss(whole.reconstruct(weights) - weights, damped(gram))[:40]
    assert bool((plain > bound * (1 + LOSS_TOLERANCE)).any())  # the wrong variant: no error is passed on
    assert float((found - best).sum()) < float((plain - best).sum()) / 2


def test_last_column_alone_is_plain_rounding() -> None:
    weights = layer()[0][:, :1]
    assert torch.equal(gptq(weights, torch.ones(1, 1), SCHEMES["int4-row"]), SCHEMES["int4-row"].reconstruct(weights))


@pytest.mark.parametrize("slug", ["int8-row", "int4-row", "int4-g32", "affine4-g32"])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_held_out_error_against_plain_rounding(slug: str, sort: bool, seed: int) -> None:
    weights, inputs = layer(seed)
    seen, held_out = inputs[:200], inputs[200:]
    plain = SCHEMES[slug].reconstruct(weights) - weights
    found = gptq(weights, gram_of(seen), SCHEMES[slug], Procedure(sort=sort)) - weights
    for rows in (seen, held_out):
        assert float((rows @ found.T).norm()) < 0.8 * float((rows @ plain.T).norm())
    assert float(found.norm()) > float(plain.norm())  # by moving weights further: what is kept is the output


def test_held_out_error_rejects_moments_of_other_inputs() -> None:
    """The wrong variant: columns mixed up between calibration and use; errors are passed to the wrong neighbours."""
    weights, inputs = layer()
    shuffled = inputs[:, torch.randperm(80, generator=torch.Generator().manual_seed(9))]
    plain = SCHEMES["int4-row"].reconstruct(weights) - weights
    wrong = gptq(weights, gram_of(shuffled), SCHEMES["int4-row"]) - weights
    assert float((inputs @ wrong.T).norm()) > float((inputs @ plain.T).norm())


def test_sorted_order_against_sorting_the_matrix() -> None:
    weights, inputs = layer()
    inputs = inputs * torch.linspace(0.5, 2, 80)
    gram, row = gram_of(inputs), SCHEMES["int4-row"]
    order = gram.diagonal().argsort(descending=True)
    by_hand = gptq(weights[:, order], gram[order][:, order], row)[:, order.argsort()]
    ours = gptq(weights, gram, row, Procedure(sort=True))
    assert torch.equal(ours, by_hand)
    assert not torch.equal(ours, gptq(weights, gram, row))


def test_sorted_order_keeps_the_original_groups() -> None:
    """Every weight is a multiple of its own group's scale, which is plain rounding's."""
    weights, inputs = layer(columns=64)
    scales = SCHEMES["int4-g32"].quantize(weights).scales.float()
    codes = gptq(weights, gram_of(inputs), SCHEMES["int4-g32"], Procedure(sort=True)).reshape(-1, 32) / scales
    assert float((codes - codes.round()).abs().max()) < 1e-5  # codes up to 7, one rounding of a product and a quotient
    assert float(codes.abs().max().round()) == 7


def test_silent_channels_are_rounded_by_themselves() -> None:
    weights, inputs = layer()
    inputs[:, [0, 9, 79]] = 0
    rebuilt = gptq(weights, gram_of(inputs), SCHEMES["int4-row"])
    plain = SCHEMES["int4-row"].reconstruct(weights)
    assert torch.equal(rebuilt[:, [0, 9, 79]], plain[:, [0, 9, 79]])
    assert not torch.equal(rebuilt, plain)
    assert torch.equal(gptq(weights, torch.zeros(80, 80), SCHEMES["int4-row"]), plain)


def test_constant_channels() -> None:
    """One constant channel, and nothing but constants: a gram matrix of rank 1, which damping makes usable."""
    weights, inputs = layer()
    inputs[:, 5] = 4.0
    constants = torch.ones(50, 1) * torch.linspace(-2, 2, 80)
    for rows in (inputs, constants):
        rebuilt = gptq(weights, gram_of(rows), SCHEMES["int4-g32"])
        plain = SCHEMES["int4-g32"].reconstruct(weights)
        assert float((rows @ (rebuilt - weights).T).norm()) < float((rows @ (plain - weights).T).norm())


@pytest.mark.parametrize("slug", ["int4-g32", "affine4-g32"])
@pytest.mark.parametrize("sort", [False, True])
def test_groups_of_zeros(slug: str, sort: bool) -> None:
    weights, inputs = layer()
    weights[:, 32:64], weights[5] = 0, 0
    rebuilt = gptq(weights, gram_of(inputs), SCHEMES[slug], Procedure(sort=sort))
    assert bool(torch.isfinite(rebuilt).all())
    assert not rebuilt[5].any()
    assert bool(rebuilt[:, 32:64].any()) is not sort  # from left to right they take errors up; a scale of 0 cannot


def test_fewer_rows_than_columns_fit_those_rows_and_nothing_else() -> None:
    """Singular moments, made usable by damping: better on the rows it saw, worse than plain rounding on others."""
    weights, inputs = layer(samples=400)
    inputs = torch.randn(400, 80, generator=torch.Generator().manual_seed(3))
    seen, held_out = inputs[:40], inputs[40:]
    plain = SCHEMES["int4-row"].reconstruct(weights) - weights
    found = gptq(weights, gram_of(seen), SCHEMES["int4-row"]) - weights
    assert bool(torch.isfinite(found).all())
    assert float((seen @ found.T).norm()) < float((seen @ plain.T).norm())
    assert float((held_out @ found.T).norm()) > float((held_out @ plain.T).norm())


def test_moments_that_cannot_be_factored_are_refused() -> None:
    weights = layer()[0]
    with pytest.raises(ValueError, match="positive definite"):
        gptq(weights, torch.ones(80, 80), SCHEMES["int4-row"], Procedure(damping=0.0))
    assert bool(torch.isfinite(gptq(weights, torch.ones(80, 80), SCHEMES["int4-row"])).all())


def test_bad_input_is_refused() -> None:
    weights, inputs = layer()
    gram, bad = gram_of(inputs), weights.clone()
    bad[3, 4] = float("nan")
    with pytest.raises(NotFiniteError, match="weights"):
        gptq(bad, gram, SCHEMES["int4-row"])
    gram[2, 1] = float("inf")
    with pytest.raises(NotFiniteError, match="gram"):
        gptq(weights, gram, SCHEMES["int4-row"])
    with pytest.raises(ValueError, match="evenly spaced"):
        gptq(weights, gram, SCHEMES["nf4-b64"])
    with pytest.raises(ValueError, match="one column"):
        gptq(weights, gram, SCHEMES["int4-row"], Procedure(block=0))


def test_a_channel_of_little_energy_is_not_taken_for_a_silent_one() -> None:
    factor = inverse_factor(torch.diag(torch.tensor([0.25, 4.0, 0.0])), damping=0.0)
    assert (factor.T @ factor).diagonal().tolist() == pytest.approx([4.0, 0.25, 2 / 4.25])
