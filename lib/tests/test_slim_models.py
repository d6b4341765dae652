"""Small models cut out of larger ones: what they share with the original, and what they must not keep of it."""

from __future__ import annotations

import torch
from transformers import Qwen2Config

from lib.decoding import forward, random_tokens
from lib.slim_models import cast_copy, first_layers, one_real_layer
from lib.tests.tiny_qwen2 import tiny_qwen2


def test_first_layers_are_a_model_in_eval_mode_with_the_same_weights() -> None:
    model = tiny_qwen2().train()
    part = first_layers(model, 1)
    assert not part.training and len(part.config.layer_types) == len(part.model.layers) == 1
    assert part.state_dict().keys() < model.state_dict().keys()  # no buffer has become a weight
    assert all(p.data_ptr() == model.get_parameter(name).data_ptr() for name, p in part.named_parameters())
    assert forward(part, random_tokens(5, 97)).logits.isfinite().all()
    assert len(model.model.layers) == len(model.config.layer_types) == 2


def test_one_real_layer_is_one_and_holds_no_numbers() -> None:
    config = Qwen2Config(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2)
    layer = one_real_layer(config)
    assert len(layer.model.layers) == layer.config.num_hidden_layers == 1
    assert {p.device.type for p in layer.parameters()} == {"meta"}


def test_a_copy_in_another_format_leaves_the_model_alone_and_ties_tied() -> None:
    model = tiny_qwen2()
    twin = cast_copy(model, torch.float16)
    assert {p.dtype for p in twin.parameters()} == {torch.float16}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert twin.lm_head.weight is twin.model.embed_tokens.weight
    assert not any(p.requires_grad for p in twin.parameters())
