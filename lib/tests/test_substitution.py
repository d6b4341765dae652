"""Matrices and products put in a model's layers for a while, against the model itself and by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from lib.quantization.mixed import int8_product
from lib.quantization.substitution import products_replaced, weights_replaced
from lib.tests.tiny_qwen2 import tiny_qwen2
from lib.weight_stats import projection_weights

IDS = torch.arange(12).reshape(2, 6)
QUERY = "model.layers.0.self_attn.q_proj"  # has a bias in this architecture


@pytest.fixture
def tiny() -> nn.Module:
    model = tiny_qwen2()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model.get_submodule(QUERY).bias.data.normal_()
    return model


@torch.no_grad()
def logits(model: nn.Module) -> Tensor:
    found: Tensor = model(IDS).logits
    return found


def test_given_matrices_against_copying_them_in(tiny: nn.Module) -> None:
    before = logits(tiny)
    matrices = {name: weights.round(decimals=2) for name, weights in projection_weights(tiny).items()}
    with weights_replaced(tiny, matrices):
        inside = logits(tiny)
    assert torch.equal(logits(tiny), before)
    for name, matrix in matrices.items():
        tiny.get_submodule(name).weight.data.copy_(matrix)
    assert torch.equal(inside, logits(tiny)) and not torch.equal(inside, before)


def test_the_exact_product_changes_nothing(tiny: nn.Module) -> None:
    before = logits(tiny)
    exact = {n: lambda rows, w=w: linear(rows, w) for n, w in projection_weights(tiny).items()}
    with products_replaced(tiny, exact):
        torch.testing.assert_close(logits(tiny), before)
    halved = {n: lambda rows, w=w: linear(rows, w / 2) for n, w in projection_weights(tiny).items()}
    with products_replaced(tiny, halved):
        assert not torch.allclose(logits(tiny), before, rtol=1e-3)
    assert torch.equal(logits(tiny), before)


def test_one_product_against_the_layer_by_hand(tiny: nn.Module) -> None:
    layer, rows = tiny.get_submodule(QUERY), torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(0))
    with products_replaced(tiny, {QUERY: lambda x: int8_product(x, layer.weight.detach())}):
        found = layer(rows)
    by_hand = int8_product(rows.flatten(0, 1), layer.weight.detach()).reshape(2, 3, -1) + layer.bias
    assert torch.equal(found, by_hand)
    assert not torch.equal(found, by_hand - layer.bias)


def test_everything_is_back_after_an_error(tiny: nn.Module) -> None:
    before, zeros = logits(tiny), torch.zeros(32, 32)
    with pytest.raises(KeyboardInterrupt), weights_replaced(tiny, {QUERY: zeros}):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), products_replaced(tiny, {QUERY: lambda rows: rows}):
        raise KeyboardInterrupt
    assert torch.equal(logits(tiny), before)
    assert "forward" not in vars(tiny.get_submodule(QUERY))


def test_wrong_names_and_shapes_are_refused_before_anything_changes(tiny: nn.Module) -> None:
    before = logits(tiny)
    with pytest.raises(ValueError, match="no linear layer"), products_replaced(tiny, {"model.norm": lambda x: x}):
        pass
    with (
        pytest.raises(ValueError, match=r"\(32, 32\), not \(2, 2\)"),
        weights_replaced(tiny, {QUERY: torch.ones(2, 2)}),
    ):
        pass
    assert torch.equal(logits(tiny), before)
