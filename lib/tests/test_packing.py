"""Packed weights: every byte accounted for, and nothing needed beyond what is stored."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from lib.quantization.packing import (
    double_quantized_bits,
    pack,
    pack_nibbles,
    packed_model,
    stored_bits,
    tensor_bytes,
    unpack,
    unpack_nibbles,
    written_bytes,
)
from lib.quantization.schemes import SCHEMES


def matrix(rows: int = 12, columns: int = 320) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))


@given(st.lists(st.integers(-8, 7), max_size=33))
def test_signed_nibbles_survive(codes: list[int]) -> None:
    packed = pack_nibbles(torch.tensor(codes, dtype=torch.int8))
    assert packed.numel() == -(-len(codes) // 2)
    assert unpack_nibbles(packed, len(codes), signed=True).tolist() == codes


@given(st.lists(st.integers(0, 15), max_size=33))
def test_unsigned_nibbles_survive(codes: list[int]) -> None:
    packed = pack_nibbles(torch.tensor(codes, dtype=torch.uint8))
    assert unpack_nibbles(packed, len(codes), signed=False).tolist() == codes


def test_the_low_half_holds_the_even_position() -> None:
    assert pack_nibbles(torch.tensor([1, 2], dtype=torch.uint8)).tolist() == [0x21]
    assert pack_nibbles(torch.tensor([-1, 7], dtype=torch.int8)).tolist() == [0x7F]


@pytest.mark.parametrize("codes", [torch.tensor([8], dtype=torch.int8), torch.tensor([16], dtype=torch.uint8)])
def test_codes_that_need_more_bits_are_refused(codes: Tensor) -> None:
    with pytest.raises(ValueError, match="four bits"):
        pack_nibbles(codes)


@pytest.mark.parametrize("slug", list(SCHEMES))
@pytest.mark.parametrize("columns", [320, 321])
def test_unpacked_weights_against_the_reconstruction(slug: str, columns: int) -> None:
    scheme, weights = SCHEMES[slug], matrix(columns=columns)
    packed = pack(scheme, weights)
    assert torch.equal(unpack(scheme, packed, *weights.shape), scheme.reconstruct(weights))


def test_reconstruction_comparison_rejects_swapped_halves() -> None:
    scheme, weights = SCHEMES["int4-g64"], matrix()
    packed = pack(scheme, weights)
    packed["codes"] = (packed["codes"] << 4) | (packed["codes"] >> 4)
    assert not torch.equal(unpack(scheme, packed, *weights.shape), scheme.reconstruct(weights))


@pytest.mark.parametrize("slug", list(SCHEMES))
def test_stored_bytes_against_bits_per_weight(slug: str) -> None:
    scheme, weights = SCHEMES[slug], matrix(columns=320)
    stored = 8 * tensor_bytes(pack(scheme, weights))
    assert stored == pytest.approx(scheme.bits_per_weight(12, 320) * weights.numel(), abs=1e-6)


def test_bits_of_the_bookkeeping() -> None:
    assert stored_bits(SCHEMES["int4-g128"], 4, 256) == Fraction("4.125")
    assert stored_bits(SCHEMES["nf4-b64"], 4, 256) == Fraction("4.25")
    assert float(double_quantized_bits(64)) == pytest.approx(4 + 8 / 64 + 32 / (64 * 256), rel=1e-15)


def test_file_holds_the_tensors_and_a_header_with_their_names() -> None:
    packed = pack(SCHEMES["int4-g64"], matrix())
    header = written_bytes(packed) - tensor_bytes(packed)
    assert 0 < header < 1024


def test_packed_model_stores_projections_packed_and_the_rest_cast() -> None:
    weights = matrix()
    parameters = {"a.weight": weights, "a.bias": torch.zeros(12), "embed.weight": torch.zeros(5, 7)}
    stored = packed_model(SCHEMES["int4-g64"], {"a": weights}, parameters, torch.float16)
    assert set(stored) == {"a.codes", "a.scales", "a.bias", "embed.weight"}
    assert tensor_bytes(stored) == 12 * 320 // 2 + 2 * 12 * 5 + 2 * 12 + 2 * 35


@pytest.mark.parametrize("codes", [[-9, 0], [0, 8]])
def test_one_code_of_more_than_four_bits_is_refused(codes: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit four bits"):
        pack_nibbles(torch.tensor(codes, dtype=torch.int8))
    with pytest.raises(ValueError, match="do not fit four bits"):
        pack_nibbles(torch.tensor([0, 16], dtype=torch.uint8))
