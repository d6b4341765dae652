"""Models that are cheap to build and still have the real cache, or the real layer.

What a cache holds depends on layers, key-value heads and head dimension only; what a layer computes does not depend
on the vocabulary or on how many layers there are. So a question about bytes or operations is answered on a model
that keeps those numbers and shrinks the others. Weights are random, seeded, and mean nothing.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from lib.cache_bytes import CacheShape, cache_shape
from lib.unmeasurable import Unmeasurable

SLIM_WIDTH = 16  # of everything that the cache does not see
SLIM_VOCABULARY = 32  # ids
HEADS_FOLLOW = "has no key-value heads whose number and size can be set"


def slim_config(config: PretrainedConfig, **changes: Any) -> PretrainedConfig:
    """A copy of the configuration with explicit head dimension, little vocabulary, no special tokens, and `changes`.

    The heads keep their size: hidden width, MLP width and layers stay unless `changes` says otherwise.
    """
    slim = copy.deepcopy(config.get_text_config())
    shape = cache_shape(slim)
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    for name, value in {"head_dim": shape.head_dim, "vocab_size": SLIM_VOCABULARY, **special, **changes}.items():
        setattr(slim, name, value)
    slim.layer_types = _layer_types(slim, changes.get("layer_types"))
    return slim


def cache_only(config: PretrainedConfig, dtype: torch.dtype = torch.float32, **changes: Any) -> PreTrainedModel:
    """A model with exactly this configuration's cache and next to no weights, in eval mode.

    Raises Unmeasurable for an architecture whose heads follow from its width, so that it cannot be had slim.
    """
    widths = {"hidden_size": SLIM_WIDTH, "intermediate_size": SLIM_WIDTH}
    slim = slim_config(config, **widths, **changes)
    try:
        model = _build(slim, dtype, "cpu", "sdpa")
    except ValueError:  # the width does not divide into its heads; or the heads into other groups, which a caller asked
        if "num_key_value_heads" in changes:
            raise
        raise Unmeasurable(f"{slim.model_type} {HEADS_FOLLOW}") from None
    _refuse_other_heads(model, cache_shape(slim))
    return model


def one_real_layer(config: PretrainedConfig, **changes: Any) -> PreTrainedModel:
    """One layer at its real width on the meta device (shapes without numbers), attention written out as products."""
    return _build(slim_config(config, num_hidden_layers=1, **changes), torch.float32, "meta", "eager")


def cast_copy(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A copy of the model with its parameters in another format; the model itself stays as it is, ties stay ties."""
    memo: dict[int, Any] = {
        id(p): nn.Parameter(p.detach().to(dtype, copy=True), requires_grad=False) for p in model.parameters()
    }
    twin: PreTrainedModel = copy.deepcopy(model, memo)
    return twin


def first_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """A model of the first layers of another: the same weights, not copied, with its embeddings and last norm."""
    config = copy.deepcopy(model.config)
    text = config.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    with torch.device("meta"):
        part: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=model.dtype)
    part.load_state_dict(model.state_dict(), strict=False, assign=True)
    part.tie_weights()
    buffers = dict(model.named_buffers())
    for name in [name for name, _ in part.named_buffers()]:
        _set_buffer(part, name, buffers[name])
    part.eval()
    return part


def _refuse_other_heads(model: PreTrainedModel, wanted: CacheShape) -> None:
    """Some architectures pass over a head dimension or a number of key-value heads that is set."""
    shapes: set[tuple[int, int]] = set()
    with torch.no_grad(), suppress(RuntimeError):  # heads that do not divide are the caller's to find
        cache = model(torch.zeros((1, 1), dtype=torch.long), use_cache=True).cache
        shapes = {(t.shape[1], t.shape[3]) for layer in cache.layers for t in (layer.keys, layer.values)}
    if shapes - {(wanted.kv_heads, wanted.head_dim)}:
        raise Unmeasurable(f"{model.config.model_type} {HEADS_FOLLOW}")


def _set_buffer(model: nn.Module, name: str, buffer: torch.Tensor) -> None:
    """Rotary frequencies and the like are no part of a state dict."""
    owner, _, last = name.rpartition(".")
    model.get_submodule(owner).register_buffer(last, buffer, persistent=False)


def _layer_types(config: PretrainedConfig, wanted: list[str] | None) -> list[str]:
    return wanted or ["full_attention"] * config.num_hidden_layers


def _build(config: PretrainedConfig, dtype: torch.dtype, device: str, attention: str) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]), torch.device(device):
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    model.eval()
    return model
