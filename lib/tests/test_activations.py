"""The capture of streams and linear inputs, held against transformers' own hidden states and against the norms."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, LlamaConfig, PreTrainedModel, Qwen2Config
from transformers.models.gpt2 import GPT2LMHeadModel
from transformers.models.llama import LlamaForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.activations import (
    _one_random_block,
    decoder_blocks,
    linear_inputs,
    random_residual_stream,
    residual_stream,
    watch_linear_inputs,
)
from lib.decoding import random_tokens

VOCAB, LAYERS = 61, 4
SIZES: dict[str, Any] = {"vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": LAYERS,
         "num_attention_heads": 6, "num_key_value_heads": 2}  # fmt: skip
IDS = random_tokens(9, VOCAB, batch=2)


@pytest.fixture(params=["qwen2", "llama"])
def tiny(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(3)
    model: PreTrainedModel = (
        Qwen2ForCausalLM(Qwen2Config(**SIZES)) if request.param == "qwen2" else LlamaForCausalLM(LlamaConfig(**SIZES))
    )
    model.eval()
    return model


def hooks_left(model: torch.nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def hidden_states(model: PreTrainedModel) -> tuple[Tensor, ...]:
    with torch.no_grad():
        states: tuple[Tensor, ...] = model(IDS, output_hidden_states=True, use_cache=False).hidden_states
    return states


def part_of(module: Any, name: str) -> Callable[..., Tensor]:
    """A submodule as something to call: to a type checker, an attribute of a module may be a tensor."""
    part: Callable[..., Tensor] = getattr(module, name)
    return part


def test_layer_k_is_entry_k_plus_one_of_transformers_hidden_states(tiny: PreTrainedModel) -> None:
    stream, states = residual_stream(tiny, IDS), hidden_states(tiny)
    assert stream.shape == (LAYERS, 2, 9, 48)
    assert stream.dtype == torch.float32
    assert len(states) == LAYERS + 1
    for k in range(LAYERS - 1):
        assert torch.equal(stream[k], states[k + 1])


def test_layer_k_rejects_the_wrong_numbering_from_the_embedding(tiny: PreTrainedModel) -> None:
    stream, states = residual_stream(tiny, IDS), hidden_states(tiny)
    assert not any(torch.equal(stream[k], states[k]) for k in range(LAYERS))


def test_last_layer_is_before_the_final_norm_and_transformers_entry_after_it(tiny: PreTrainedModel) -> None:
    stream, states = residual_stream(tiny, IDS), hidden_states(tiny)
    assert not torch.allclose(stream[-1], states[-1])
    with torch.no_grad():
        assert torch.equal(part_of(tiny.base_model, "norm")(stream[-1]), states[-1])


def test_stream_of_blocks_that_write_nothing_is_the_embedding(tiny: PreTrainedModel) -> None:
    for name, weight in tiny.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            weight.data.zero_()
    embedded = tiny.get_input_embeddings()(IDS).detach()
    assert all(torch.equal(layer, embedded) for layer in residual_stream(tiny, IDS))


def test_stopping_early_gives_the_same_first_layers_and_runs_no_later_block(tiny: PreTrainedModel) -> None:
    whole, blocks = residual_stream(tiny, IDS), decoder_blocks(tiny)
    ran: list[int] = []
    handles = [b.register_forward_hook(lambda _m, _a, _o, k=k: ran.append(k)) for k, b in enumerate(blocks)]
    part = residual_stream(tiny, IDS, last_block=1)
    assert torch.equal(part, whole[:2])
    assert ran == [0, 1]
    for handle in handles:
        handle.remove()


def test_an_edit_is_what_the_next_block_reads(tiny: PreTrainedModel) -> None:
    def without_dimension_5(h: Tensor) -> Tensor:
        h[..., 5] = 0
        return h

    plain, edited = residual_stream(tiny, IDS), residual_stream(tiny, IDS, edits={1: without_dimension_5})
    assert torch.equal(edited[0], plain[0])
    assert torch.equal(edited[1], without_dimension_5(plain[1].clone()))
    assert not torch.equal(edited[1], plain[1])
    blocks, rotary = decoder_blocks(tiny), part_of(tiny.base_model, "rotary_emb")
    with torch.no_grad():  # block 2 by hand on the edited stream
        places = torch.arange(IDS.shape[1])[None]
        by_hand = blocks[2](edited[1], position_ids=places, position_embeddings=rotary(edited[1], places))
    # the model passes a causal mask and the bare block its causal flag: same sums of 48 O(1) terms, other kernel order
    assert torch.allclose(edited[2], by_hand, atol=48 * 2.0**-24)
    assert not torch.allclose(plain[2], by_hand, atol=48 * 2.0**-24)


def test_linear_inputs_against_the_norms_of_the_stream(tiny: PreTrainedModel) -> None:
    stream, seen = residual_stream(tiny, IDS), linear_inputs(tiny, IDS)
    assert len(seen) == 7 * LAYERS
    assert not any("lm_head" in name for name in seen)
    assert seen["layers.0.mlp.down_proj"].shape == (2, 9, 80)
    block = decoder_blocks(tiny)[2]
    with torch.no_grad():
        assert torch.equal(seen["layers.2.self_attn.q_proj"], part_of(block, "input_layernorm")(stream[1]))
    assert torch.equal(seen["layers.2.self_attn.q_proj"], seen["layers.2.self_attn.v_proj"])


def test_linear_inputs_reject_the_wrong_idea_that_they_are_the_stream(tiny: PreTrainedModel) -> None:
    stream, seen = residual_stream(tiny, IDS), linear_inputs(tiny, IDS, keep=lambda x: x.abs().amax((0, 1)))
    assert seen["layers.2.self_attn.q_proj"].shape == (48,)
    assert not torch.allclose(seen["layers.2.self_attn.q_proj"], stream[1].abs().amax((0, 1)))


def test_hooks_are_gone_afterwards_and_after_an_error(tiny: PreTrainedModel) -> None:
    def broken(h: Tensor) -> Tensor:
        raise ArithmeticError("an edit that fails")

    runs: list[Callable[[], object]] = [
        lambda: residual_stream(tiny, IDS, edits={1: broken}),
        lambda: linear_inputs(tiny, IDS, keep=broken),
    ]
    for run in runs:
        with pytest.raises(ArithmeticError):
            run()
        assert hooks_left(tiny) == 0
    residual_stream(tiny, IDS, last_block=0)
    with watch_linear_inputs(tiny, keep=torch.clone):
        assert hooks_left(tiny) == 7 * LAYERS + 1
    assert hooks_left(tiny) == 0


def test_blocks_it_cannot_find_or_does_not_have_are_one_clear_error(tiny: PreTrainedModel) -> None:
    other = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_embd=8, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no list of decoder blocks"):
        residual_stream(other, IDS)
    for wrong in (LAYERS, -1):
        with pytest.raises(ValueError, match="blocks are 0 to 3"):
            residual_stream(tiny, IDS, last_block=wrong)
        with pytest.raises(ValueError, match="blocks are 0 to 3"):
            residual_stream(tiny, IDS, edits={wrong: torch.clone})


def test_random_stream_against_a_whole_model_of_the_same_blocks(tiny: PreTrainedModel) -> None:
    tokens, local = torch.unique(IDS, return_inverse=True)
    whole = type(tiny)(type(tiny.config)(**{**SIZES, "vocab_size": len(tokens)})).eval()
    for index, block in enumerate(decoder_blocks(whole)):
        source = _one_random_block(tiny.config, len(tokens), seed=20 + index)
        block.load_state_dict(decoder_blocks(source)[0].state_dict())
        if index == 0:
            whole.get_input_embeddings().load_state_dict(source.get_input_embeddings().state_dict())
    assert torch.equal(random_residual_stream(tiny.config, IDS, seed=20), residual_stream(whole, local))


def test_random_stream_depends_on_its_seed_alone_and_leaves_the_generator(tiny: PreTrainedModel) -> None:
    before = torch.get_rng_state()
    first, again, other = (random_residual_stream(tiny.config, IDS, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())
    assert tiny.config.num_hidden_layers == LAYERS
    assert tiny.config.vocab_size == VOCAB
