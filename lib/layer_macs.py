"""Multiply-accumulates of one transformer layer, part by part, counted from the operations that really run.

The counter watches every matrix product of a forward pass and knows which module asked for it (torch's
FlopCounterMode; two flops are one multiply-accumulate). Norms, rotations and softmax multiply no matrices and are
left out: together they are linear in width, below one percent here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PretrainedConfig

from lib.cache_bytes import cache_shape
from lib.decoding import decode_step, prefill
from lib.slim_models import one_real_layer
from lib.unmeasurable import Unmeasurable

FLOPS_PER_MAC = 2


@dataclass(frozen=True)
class LayerMacs:
    """Multiply-accumulates of one layer for one pass, by part."""

    query_and_output: int
    key_and_value: int
    scores_and_mix: int  # query × keys, and weights × values
    mlp: int

    @property
    def projections(self) -> int:
        """The four linear maps of attention."""
        return self.query_and_output + self.key_and_value

    @property
    def layer(self) -> int:
        """The whole layer."""
        return self.projections + self.scores_and_mix + self.mlp


def closed_form_macs(config: PretrainedConfig, kv_heads: int, new_tokens: int, context: int) -> LayerMacs:
    """The same numbers from the shapes: `new_tokens` attend to `context` positions, themselves included."""
    text, head_dim = config.get_text_config(), cache_shape(config).head_dim
    width, heads = text.hidden_size, text.num_attention_heads
    return LayerMacs(
        query_and_output=2 * new_tokens * width * heads * head_dim,
        key_and_value=2 * new_tokens * width * kv_heads * head_dim,
        scores_and_mix=2 * new_tokens * heads * head_dim * context,
        mlp=3 * new_tokens * width * text.intermediate_size,
    )


def decode_step_macs(config: PretrainedConfig, kv_heads: int, context: int) -> LayerMacs:
    """Count one step that feeds one token at the end of `context` positions, itself included (context ≥ 2).

    Runs one layer of this width on the meta device: no numbers are computed, the operations are the real ones.
    Raises Unmeasurable for a model whose layers are not attention and a gated MLP under the usual names.
    """
    model = one_real_layer(config, num_key_value_heads=kv_heads)
    ids = torch.zeros((1, context - 1), dtype=torch.long, device="meta")
    cache = prefill(model, ids).cache
    with FlopCounterMode(display=False) as counter:
        decode_step(model, ids[:, :1], cache)
    return _by_part({name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()})


def saved_shares(config: PretrainedConfig, kv_heads: int, context: int) -> dict[str, Fraction]:
    """The share of multiply-accumulates that this many key-value heads save against one per query head, by part.

    One decoded token at the end of `context` positions; parts: "scores and mix", "projections", "layer".
    """
    full = decode_step_macs(config, config.get_text_config().num_attention_heads, context)
    few = decode_step_macs(config, kv_heads, context)
    return {
        "scores and mix": 1 - Fraction(few.scores_and_mix, full.scores_and_mix),
        "projections": 1 - Fraction(few.projections, full.projections),
        "layer": 1 - Fraction(few.layer, full.layer),
    }


def _by_part(flops: dict[str, int]) -> LayerMacs:
    def macs(module: str) -> int:
        found = [count for name, count in flops.items() if name.endswith(f"layers.0.{module}")]
        if len(found) != 1:
            raise Unmeasurable(f"no module layers.0.{module}: not a layer that this counter knows")
        return found[0] // FLOPS_PER_MAC

    query_output = macs("self_attn.q_proj") + macs("self_attn.o_proj")
    key_value = macs("self_attn.k_proj") + macs("self_attn.v_proj")
    return LayerMacs(query_output, key_value, macs("self_attn") - query_output - key_value, macs("mlp"))
