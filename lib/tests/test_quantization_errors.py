"""Error measures: the streamed path against the plain one, and the geometry of an error."""

from __future__ import annotations

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from lib.quantization import errors
from lib.quantization.errors import (
    ErrorTable,
    error_of,
    error_table,
    fidelity,
    least_cosine,
    relative_error,
    scheme_error,
)
from lib.quantization.schemes import SCHEMES

# fp32 sums of squares over at most 2^18 positive terms, in torch's blocked order: far below 1e-5 of the sum.
SUMS = 1e-5
TABLE = ErrorTable({"a": {"x": 0.1, "y": 0.3}, "b": {"x": 0.2, "y": 0.2}})


def matrix(rows: int = 40, columns: int = 320) -> Tensor:
    weights = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    weights[3, 5] = -40.0
    return weights


@pytest.mark.parametrize("slug", list(SCHEMES))
def test_streamed_error_against_the_whole_reconstruction(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_PIECE", 1000)  # many pieces, the last one short
    whole = relative_error(matrix(), SCHEMES[slug].reconstruct(matrix()))
    assert scheme_error(SCHEMES[slug], matrix()) == pytest.approx(whole, rel=SUMS)


def test_whole_reconstruction_rejects_a_scale_per_piece() -> None:
    weights, scheme = matrix(), SCHEMES["int4-tensor"]
    by_halves = torch.cat([scheme.reconstruct(half) for half in (weights[:20], weights[20:])])
    assert relative_error(weights, by_halves) != pytest.approx(scheme_error(scheme, weights), rel=0.1)


def test_fidelity_against_the_whole_reconstruction() -> None:
    weights, rebuilt = matrix(), SCHEMES["int4-tensor"].reconstruct(matrix())
    found = fidelity(SCHEMES["int4-tensor"], weights)
    assert found.norm_ratio == pytest.approx(float(rebuilt.norm() / weights.norm()), rel=SUMS)
    assert found.cosine == pytest.approx(float((rebuilt * weights).sum() / rebuilt.norm() / weights.norm()), rel=SUMS)
    assert found.zero_fraction == float((rebuilt == 0).double().mean())
    assert found.relative_error == pytest.approx(error_of(found.norm_ratio, found.cosine), rel=10 * SUMS)


def test_fidelity_counts_no_filler_as_zeros() -> None:
    weights = torch.full((2, 130), 3.0)
    assert fidelity(SCHEMES["int4-g128"], weights).zero_fraction == 0


def test_a_matrix_of_zeros() -> None:
    zeros = torch.zeros(2, 64)
    assert scheme_error(SCHEMES["int4-g64"], zeros) == 0
    assert (relative_error(zeros, zeros), relative_error(zeros, zeros + 1)) == (0, math.inf)
    with pytest.raises(ValueError, match="no direction"):
        fidelity(SCHEMES["int4-tensor"], zeros)


def test_noise_of_the_right_size_leaves_root_two_and_zeros_leave_one() -> None:
    assert error_of(1, 0) == pytest.approx(math.sqrt(2))
    assert error_of(0, 0) == 1
    generator = torch.Generator().manual_seed(1)
    weights, noise = torch.randn(300, 300, generator=generator), torch.randn(300, 300, generator=generator)
    # n = 90,000 independent products: the cosine of independent noise is 0 with deviation 1/300.
    assert relative_error(weights, noise) == pytest.approx(math.sqrt(2), abs=5 / 300)


@given(st.floats(0, 3), st.floats(-1, 1))
def test_least_cosine_bounds_every_replacement(norm_ratio: float, cosine: float) -> None:
    error = error_of(norm_ratio, cosine)
    if error < 1:
        assert cosine >= least_cosine(error) - 1e-7  # the root of a difference near 0 loses half of the digits


def test_least_cosine_refuses_errors_that_imply_nothing() -> None:
    with pytest.raises(ValueError, match="below 1"):
        least_cosine(1.0)


def test_table_summaries() -> None:
    assert TABLE.mean("a") == pytest.approx(0.2)
    assert TABLE.mean("a", ["x"]) == pytest.approx(0.1)
    assert TABLE.worst("a") == ("y", 0.3)
    assert TABLE.wins("a", "b") == 1


def test_table_of_schemes_against_single_errors() -> None:
    weights = {"one": matrix(), "two": matrix(8, 128)}
    table = error_table([SCHEMES["int4-row"], SCHEMES["nf4-b64"]], weights)
    assert table.errors["nf4-b64"]["two"] == scheme_error(SCHEMES["nf4-b64"], weights["two"])
    assert list(table.errors) == ["int4-row", "nf4-b64"]
