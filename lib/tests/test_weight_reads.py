"""Counted reads held against passes whose count is known."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lib.decoding import forward, random_tokens
from lib.slim_models import first_layers
from lib.step_actions import decode_action
from lib.weight_reads import weight_reads

VOCABULARY = 61


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def tiny(request: pytest.FixtureRequest) -> PreTrainedModel:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCABULARY, tie_word_embeddings=request.param,
    )  # fmt: skip
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    return model


@pytest.mark.parametrize("batch", [1, 5])
def test_a_step_reads_every_matrix_once_whatever_the_batch(tiny: PreTrainedModel, batch: int) -> None:
    reads = weight_reads(tiny, decode_action(tiny, 4, batch=batch))
    looked_up = {"model.embed_tokens.weight"} - (
        {"model.embed_tokens.weight"} if tiny.config.tie_word_embeddings else set()
    )
    assert {name: count for name, count in reads.items() if count != 1} == dict.fromkeys(looked_up, 0)


def test_a_pass_per_request_is_seen(tiny: PreTrainedModel) -> None:
    ids = random_tokens(3, VOCABULARY, batch=4)
    reads = weight_reads(tiny, lambda: [forward(tiny, row[None]) for row in ids])
    assert max(reads.values()) == 4


def test_a_copy_of_the_weights_in_between_is_seen() -> None:
    layer = torch.nn.Linear(4, 4, bias=False)
    assert weight_reads(layer, lambda: torch.ones(1, 4) @ layer.weight.T) == {"weight": 1}
    assert weight_reads(layer, lambda: torch.ones(1, 4) @ layer.weight.clone().T) == {"weight": 1}
    assert weight_reads(layer, lambda: layer.weight.sum() + layer(torch.ones(1, 4)).sum()) == {"weight": 2}


def test_first_layers_against_the_whole_model(tiny: PreTrainedModel) -> None:
    seen: list[torch.Tensor] = []
    hook = tiny.model.layers[1].register_forward_hook(
        lambda _, args, out: seen.append(out[0] if isinstance(out, tuple) else out)
    )
    ids = random_tokens(6, VOCABULARY)
    forward(tiny, ids)
    hook.remove()
    part = first_layers(tiny, 2)
    assert not part.training and len(part.config.layer_types) == 2
    with torch.no_grad():
        expected = tiny.lm_head(tiny.model.norm(seen[0]))[:, -1:]
    torch.testing.assert_close(forward(part, ids).logits, expected)  # one row's product, or all rows': rounding
    assert len(tiny.model.layers) == tiny.config.num_hidden_layers == 3
    assert all(p.data_ptr() in {q.data_ptr() for q in tiny.parameters()} for p in part.parameters())
    assert not torch.allclose(forward(first_layers(tiny, 1), ids).logits, expected, atol=1e-3)
