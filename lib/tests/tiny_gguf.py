"""A tiny transformers model written as a GGUF file the way llama.cpp's converter does, for tests."""

from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 259, "max_position_embeddings": 128,
}  # fmt: skip
KINDS = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}


def tiny_model(kind="qwen2", tied=True, seed=0):
    config_class, model_class = KINDS[kind]
    torch.manual_seed(seed)
    model = model_class(config_class(**SIZES, tie_word_embeddings=tied)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms start at 0 and 1: make every tensor tell
            parameter.add_(0.02 * torch.randn_like(parameter))
    return model


def write_gguf(model, path: Path, kind="qwen2", second_head=None, permute=True):
    """Write the model; `second_head` stores an output head beside the embedding, as some files do for tied models."""
    writer = gguf.GGUFWriter(str(path), kind)
    _header(writer, kind)
    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[kind], SIZES["num_hidden_layers"])
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        array = tensor.float().numpy()
        if kind == "llama" and permute and ("q_proj" in name or "k_proj" in name):
            array = pairs_from_halves(array, 4 if "q_proj" in name else 2)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(array))
    if second_head is not None:
        writer.add_tensor("output.weight", second_head)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def pairs_from_halves(weights, heads):
    """llama.cpp's own permutation, written from its converter's definition rather than as our inverse."""
    half = weights.shape[0] // heads // 2
    return weights.reshape(heads, 2, half, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def _header(writer, kind):
    writer.add_block_count(SIZES["num_hidden_layers"])
    writer.add_context_length(SIZES["max_position_embeddings"])
    writer.add_embedding_length(SIZES["hidden_size"])
    writer.add_feed_forward_length(SIZES["intermediate_size"])
    writer.add_head_count(SIZES["num_attention_heads"])
    writer.add_head_count_kv(SIZES["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(SIZES["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if kind == "qwen2" else "default")
    writer.add_token_list(_byte_tokens())
    writer.add_token_types([1] * 256 + [3] * 3)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(256)


def _byte_tokens():
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return [*bytes_to_unicode().values(), "<|end|>", "<|im_start|>", "ab"]
