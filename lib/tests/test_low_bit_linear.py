"""Low-bit layers against the product with the weights that their codes stand for; copies against their original."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lib.low_bit_linear import (
    EVEN_LEVELS,
    INT4_OFFSET,
    Int8Linear,
    LowBitLinear,
    NoKernel,
    int4_group,
    int4_layers,
    int8_layers,
    low_bit_copies,
    quantized_rows,
    step_bytes,
    table_layer,
)
from lib.quantization.nf4 import nf4_levels
from lib.step_actions import decode_action

ROWS, COLUMNS = 96, 256
U16, U32 = 2.0**-8, 2.0**-24  # half a unit in the last place of bfloat16 and of float32


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=96, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def weight() -> Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))


def activations(rows: int) -> Tensor:
    return torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(2)).bfloat16()


def decoded(weight: Tensor, bits: int) -> Tensor:
    """The weights (N, K) that the stored codes and scales stand for, fp64."""
    group = COLUMNS if bits == 8 else int4_group(weight)
    codes, scales = quantized_rows(weight, bits, group)
    return codes.double() * scales.double().repeat_interleave(group, dim=1)


def rounding_bound(inputs: Tensor, weights: Tensor, roundings: int) -> Tensor:
    """How far a product may lie from the exact one: the result and each weight rounded to bf16, sums in fp32."""
    sizes = inputs.double().abs() @ weights.abs().T
    return sizes * (U16 * roundings + COLUMNS * U32) + U16 * (inputs.double() @ weights.T).abs()


def layers(weight: Tensor) -> dict[str, LowBitLinear]:
    return int8_layers(weight, None) | int4_layers(weight, None)


# Roundings of a weight on its way: the 8-bit kernel widens exactly; code times scale is rounded once in the others.
CASES = [("int8", 8, 0), ("int4", 4, 2), ("int4, dequantized first", 4, 1)]


@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize(("name", "bits", "roundings"), CASES)
def test_product_against_decoded_weights(weight: Tensor, rows: int, name: str, bits: int, roundings: int) -> None:
    inputs, stands_for = activations(rows), decoded(weight, bits)
    error = (layers(weight)[name](inputs).double() - inputs.double() @ stands_for.T).abs()
    assert bool((error <= rounding_bound(inputs, stands_for, roundings)).all())


def test_integer_product_against_rounded_activations(weight: Tensor) -> None:
    inputs, stands_for = activations(4), decoded(weight, 8)
    scales = inputs.abs().amax(1, keepdim=True).double() / 127
    rounded = (inputs.double() / scales).round() * scales
    error = (layers(weight)["int8 times int8"](inputs).double() - rounded @ stands_for.T).abs()
    # a quotient at a half may round the other way in fp32: one step of one activation
    assert bool((error <= rounding_bound(inputs, stands_for, 0) + scales * stands_for.abs().amax()).all())


def test_bound_rejects_wrong_scales_and_a_swapped_pair_of_codes(weight: Tensor) -> None:
    inputs, stands_for = activations(4), decoded(weight, 8)
    codes, scales = quantized_rows(weight, 8, COLUMNS)
    bound = rounding_bound(inputs, stands_for, 0)
    for wrong in (
        Int8Linear(None, codes=codes, scales=scales.roll(1, 0)),
        Int8Linear(None, codes=codes.reshape(ROWS, -1, 2).flip(2).reshape(ROWS, COLUMNS).contiguous(), scales=scales),
    ):
        error = (wrong(inputs).double() - inputs.double() @ stands_for.T).abs()
        assert not bool((error <= bound).all())


def test_table_takes_any_code_book(weight: Tensor) -> None:
    inputs, book = activations(2), [float(level) for level in nf4_levels()]
    codes = torch.randint(0, 16, (ROWS, COLUMNS), generator=torch.Generator().manual_seed(3))
    scales = torch.full((ROWS, COLUMNS // 64), 0.5)
    stands_for = torch.tensor(book, dtype=torch.bfloat16).double()[codes] / 2  # halving is exact
    found = table_layer(codes, scales, book, None)(inputs).double()
    assert bool(((found - inputs.double() @ stands_for.T).abs() <= rounding_bound(inputs, stands_for, 0)).all())


def test_bias_is_added(weight: Tensor) -> None:
    inputs, bias = activations(2), torch.arange(ROWS).float()
    for name, layer in (int8_layers(weight, bias) | int4_layers(weight, bias)).items():
        assert torch.equal(layer(inputs), layers(weight)[name](inputs) + bias.bfloat16())


def test_bytes_held_against_shapes(weight: Tensor) -> None:
    held = {name: sum(b.numel() * b.element_size() for b in layer.buffers()) for name, layer in layers(weight).items()}
    groups = COLUMNS // 128
    table = 256 * 2 * 2
    assert held["int8"] == ROWS * (COLUMNS + 2)
    assert held["int4"] == ROWS * (COLUMNS // 2 + groups * 4)
    assert held["int4, dequantized first"] == ROWS * (COLUMNS // 2 + groups * 2) + table


def test_copies_leave_the_model_as_it_was(tiny: PreTrainedModel) -> None:
    before = {name: tensor.clone() for name, tensor in tiny.state_dict().items()}
    copies = low_bit_copies(tiny)
    assert set(copies) == {"int8", "int8 times int8", "int4", "int4, dequantized first"}
    assert all(torch.equal(before[name], tensor) for name, tensor in tiny.state_dict().items())
    assert all(copied.dtype == torch.bfloat16 for copied in copies.values())


def test_copies_against_a_model_with_decoded_weights(tiny: PreTrainedModel) -> None:
    ids = torch.tensor([[5, 17, 3, 90]])
    copies = low_bit_copies(tiny)
    with torch.no_grad():
        exact = tiny(ids).logits
        error = {name: float((c(ids).logits.float() - exact).norm() / exact.norm()) for name, c in copies.items()}
        same = copies["int4"](ids).logits - copies["int4, dequantized first"](ids).logits
    assert error["int8"] < error["int4"] / 2  # 8 bits are nearer than 4, whatever the kernel
    assert float(same.float().norm() / exact.norm()) < error["int4"] / 2  # the same weights by two ways


def test_a_step_runs_and_reads_fewer_bytes_the_fewer_bits(tiny: PreTrainedModel) -> None:
    copies = low_bit_copies(tiny)
    for copied in copies.values():
        decode_action(copied, 4, batch=2)()
    assert step_bytes(tiny) > 3 * step_bytes(copies["int8"]) > 3 * step_bytes(copies["int4"])


def test_step_bytes_count_a_tied_matrix_once_and_no_lookup(tiny: PreTrainedModel) -> None:
    every = sum(p.numel() * p.element_size() for p in tiny.parameters())  # the tie counts once
    rotary = step_bytes(tiny) - every
    assert 0 <= rotary < 1000  # frequencies of the positions


def test_no_kernel_for_odd_shapes() -> None:
    with pytest.raises(NoKernel):
        int4_group(torch.zeros(16, 48))
    with pytest.raises(NoKernel):
        int4_group(torch.zeros(17, 64))


def test_even_levels_are_the_kernels() -> None:
    assert EVEN_LEVELS[0] == -INT4_OFFSET
    assert len(EVEN_LEVELS) == 16
