"""Rounded inputs and a rounded residual stream: against rounding by hand, and what is spared is spared."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.activations import linear_inputs, residual_stream
from lib.quantization.absmax import NotFiniteError
from lib.quantization.mixed import int8_product, rounded
from lib.quantization.rounded_activations import (
    inputs_edited,
    lost_per_token,
    per_tensor,
    per_token,
    sparing_first,
    sparing_top,
    stream_edited,
)
from lib.tests.tiny_qwen2 import tiny_qwen2

IDS = torch.arange(12).reshape(2, 6)
QUERY = "model.layers.0.self_attn.q_proj"
EPS = float(torch.finfo(torch.float32).eps)


@pytest.fixture
def tiny() -> PreTrainedModel:
    return tiny_qwen2()


def values(first: float = 100.0, channel: float = 1.0) -> Tensor:
    """(2, 6, 32), the first token of each row and one channel larger than the rest."""
    found = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0))
    found[:, 0] *= first
    found[..., 7] *= channel
    return found


@torch.no_grad()
def logits(model: nn.Module) -> Tensor:
    found: Tensor = model(IDS).logits
    return found


def hooks(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_scales_against_the_rows_and_against_the_whole() -> None:
    x = values()
    assert torch.equal(per_token(x)[1], rounded(x[1]))
    assert torch.equal(per_tensor(x), (x / (x.abs().max() / 127)).round() * (x.abs().max() / 127))
    assert not torch.equal(per_tensor(x)[1], rounded(x[1], shared=True))  # the wrong variant: one scale per prompt
    one = values()[:1, :1]
    assert torch.equal(per_tensor(one), per_token(one))  # a decode step


def test_spared_first_tokens_are_untouched_and_set_no_scale() -> None:
    x = values()
    found = sparing_first(per_tensor)(x)
    assert torch.equal(found[:, 0], x[:, 0])
    assert torch.equal(found[:, 1:], per_tensor(x[:, 1:]))
    assert not torch.equal(found[:, 1:], per_tensor(x)[:, 1:])


def test_spared_dimensions_are_untouched_and_set_no_scale() -> None:
    x = values(first=1.0, channel=1000.0)
    found = sparing_top(per_tensor, 1)(x)
    others = [i for i in range(32) if i != 7]
    assert torch.equal(found[..., 7], x[..., 7])
    assert torch.equal(found[..., others], per_tensor(x[..., others]))
    assert not torch.equal(found[..., others], per_tensor(x)[..., others])
    assert torch.equal(sparing_top(per_tensor, 40)(x), x)
    assert torch.equal(sparing_top(per_token, 0)(x), per_token(x))


def test_loss_per_token_is_the_median_tokens() -> None:
    x = values()
    lost = (x - per_tensor(x)).flatten(0, 1).norm(dim=1) / x.flatten(0, 1).norm(dim=1)
    assert float(lost_per_token(per_tensor)(x)) == float(lost.median())
    assert float(lost_per_token(per_tensor)(x)) > 5 * float(lost_per_token(per_token)(x))


def test_edited_inputs_against_the_integer_product(tiny: PreTrainedModel) -> None:
    layer, before = tiny.get_submodule(QUERY), logits(tiny)
    x = linear_inputs(tiny, IDS)["layers.0.self_attn.q_proj"]
    with torch.no_grad(), inputs_edited(tiny, {QUERY: per_tensor}):
        found = layer(x) - layer.bias
    exact_weights = rounded(layer.weight.detach())
    by_hand = int8_product(x.flatten(0, 1), exact_weights, per_token=False).view_as(found)
    sizes = (x.abs().flatten(0, 1) @ layer.weight.detach().abs().T).view_as(found)
    lost_by_weights = (per_tensor(x) @ (exact_weights - layer.weight.detach()).T).abs()
    assert bool(((found - by_hand).abs() <= lost_by_weights + 40 * EPS * (sizes + 1)).all())
    with inputs_edited(tiny, {QUERY: per_tensor}):
        assert not torch.equal(logits(tiny), before)
    with inputs_edited(tiny, {QUERY: lambda x: x}):
        assert torch.equal(logits(tiny), before)
    assert torch.equal(logits(tiny), before) and hooks(tiny) == 0


def test_edited_stream_against_editing_block_by_block(tiny: PreTrainedModel) -> None:
    expected = residual_stream(tiny, IDS, edits={0: per_tensor, 1: per_tensor})
    seen = []
    with stream_edited(tiny, per_tensor):
        tiny.model.norm.register_forward_pre_hook(lambda _m, args: seen.append(args[0]))
        logits(tiny)
    assert torch.equal(seen[0], expected[-1])
    assert not torch.equal(seen[0], residual_stream(tiny, IDS, edits={1: per_tensor})[-1])


def test_everything_is_back_after_an_error(tiny: PreTrainedModel) -> None:
    before = logits(tiny)
    with pytest.raises(KeyboardInterrupt), inputs_edited(tiny, {QUERY: per_tensor}):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), stream_edited(tiny, per_tensor):
        raise KeyboardInterrupt
    assert torch.equal(logits(tiny), before) and hooks(tiny) == 0


def test_bad_input_is_refused(tiny: PreTrainedModel) -> None:
    with (
        pytest.raises(ValueError, match=r"no linear layers.*model\.norm"),
        inputs_edited(tiny, {"model.norm": per_token}),
    ):
        pass
    tiny.get_submodule("model.layers.0.mlp.down_proj").weight.data[0, 0] = float("nan")
    with pytest.raises(NotFiniteError), stream_edited(tiny, per_token):
        logits(tiny)
    zeros = torch.zeros(2, 3, 4)
    assert torch.equal(per_tensor(zeros), zeros) and torch.equal(per_token(zeros), zeros)
