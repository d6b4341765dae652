"""Swapping quantized weights in and out, against quantizing each matrix by itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from lib.quantization import errors
from lib.quantization.absmax import NotFiniteError
from lib.quantization.errors import error_table, rebuild
from lib.quantization.schemes import SCHEMES, Scheme
from lib.quantization.swap import WeightSwap
from lib.weight_stats import projection_weights


@pytest.fixture
def tiny() -> nn.Module:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=97, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


def bits(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def places(model: nn.Module) -> list[int]:
    return [p.data_ptr() for p in model.parameters()]


@pytest.mark.parametrize("slug", ["int8-tensor", "int4-row", "int4-g32", "affine4-g64", "nf4-b128"])
def test_swapped_weights_against_reconstruct(tiny: nn.Module, slug: str) -> None:
    """Groups of 32 divide 80 columns nowhere evenly, so the padded way is walked too."""
    scheme = SCHEMES[slug]
    expected = {name: scheme.reconstruct(w) for name, w in projection_weights(tiny).items()}
    with WeightSwap(tiny).quantized(scheme):
        found = projection_weights(tiny)
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_everything_is_back_bit_for_bit(tiny: nn.Module) -> None:
    before, where, swap = bits(tiny), places(tiny), WeightSwap(tiny)
    for slug in ("int8-row", "int4-tensor", "nf4-b64"):
        with swap.quantized(SCHEMES[slug]):
            assert places(tiny) != where
    assert places(tiny) == where
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny.state_dict().items())


def test_everything_is_back_after_an_error(tiny: nn.Module) -> None:
    before = bits(tiny)
    with pytest.raises(KeyboardInterrupt), WeightSwap(tiny).quantized(SCHEMES["int4-row"]):
        raise KeyboardInterrupt
    assert all(torch.equal(tensor, before[name]) for name, tensor in tiny.state_dict().items())


def test_only_projections_are_swapped(tiny: nn.Module) -> None:
    before = bits(tiny)
    with WeightSwap(tiny).quantized(SCHEMES["int4-row"]):
        changed = {n for n, tensor in tiny.state_dict().items() if not torch.equal(tensor, before[n])}
    assert changed == {f"{name}.weight" for name in projection_weights(tiny)}


def test_no_scheme_is_the_model_itself(tiny: nn.Module) -> None:
    where = places(tiny)
    with WeightSwap(tiny).quantized(None) as same:
        assert same is tiny
        assert places(tiny) == where


@pytest.mark.parametrize("slug", SCHEMES)
def test_errors_are_those_of_the_error_table_to_the_last_bit(tiny: nn.Module, slug: str) -> None:
    scheme, swap, weights = SCHEMES[slug], WeightSwap(tiny), projection_weights(tiny)
    with swap.quantized(scheme):
        pass
    assert swap.errors == {scheme: error_table([scheme], weights).errors[slug]}
    assert error_table([scheme], {}, swap.errors).errors[slug] is swap.errors[scheme]


def test_errors_of_another_scheme_are_others(tiny: nn.Module) -> None:
    """The wrong variant: two schemes that differ in their groups alone."""
    swap = WeightSwap(tiny)
    for slug in ("int4-row", "int4-tensor"):
        with swap.quantized(SCHEMES[slug]):
            pass
    assert swap.errors[SCHEMES["int4-row"]] != swap.errors[SCHEMES["int4-tensor"]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("slug", SCHEMES)
def test_weights_that_are_not_finite_are_refused_by_name(tiny: nn.Module, bad: float, slug: str) -> None:
    tiny.model.layers[1].mlp.up_proj.weight.data[3, 4] = bad
    where = places(tiny)
    with pytest.raises(NotFiniteError, match=r"layers\.1\.mlp\.up_proj"), WeightSwap(tiny).quantized(SCHEMES[slug]):
        pass
    assert places(tiny) == where


def test_opposite_infinities_are_refused_too(tiny: nn.Module) -> None:
    tiny.model.layers[0].mlp.up_proj.weight.data[0, :2] = torch.tensor([float("inf"), float("-inf")])
    with pytest.raises(NotFiniteError), WeightSwap(tiny).quantized(SCHEMES["int8-row"]):
        pass


def test_swapped_weights_rejects_a_scheme_of_another_group(tiny: nn.Module) -> None:
    """The wrong variant: one scale per row is not one per 16 weights."""
    with WeightSwap(tiny).quantized(SCHEMES["int4-row"]):
        found = projection_weights(tiny)["model.layers.0.mlp.up_proj"].clone()
    original = projection_weights(tiny)["model.layers.0.mlp.up_proj"]
    assert not torch.equal(found, Scheme("x", "x", "absmax", 4, 16).reconstruct(original))


@pytest.mark.parametrize("slug", ["int4-row", "int4-g32", "int8-tensor"])
def test_a_matrix_of_many_pieces_against_one(monkeypatch: pytest.MonkeyPatch, slug: str) -> None:
    weights = torch.randn(24, 64, generator=torch.Generator().manual_seed(0))
    expected = SCHEMES[slug].reconstruct(weights)
    monkeypatch.setattr(errors, "_PIECE", 160)
    found = torch.full_like(weights, 9.0)
    rebuild(SCHEMES[slug], weights, found)
    assert torch.equal(found, expected)
