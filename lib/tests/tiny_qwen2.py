"""For the tests of quantization: a small model of the chapter's architecture, random but always the same."""

from __future__ import annotations

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel


def tiny_qwen2(hidden: int = 32, intermediate: int = 64) -> PreTrainedModel:
    """Two layers, four query and two key-value heads, 97 ids, tied embeddings; a new one at each call."""
    config = AutoConfig.for_model(
        "qwen2", hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=97, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    return model
