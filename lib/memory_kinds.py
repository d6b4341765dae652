"""What a tensor alive at the peak is *for*: cache, logits, loss, MLP, attention, hidden states, or none.

Reads the name of the function that made the tensor, as transformers names them in every decoder (``…MLP.forward``,
``…ForCausalLM.forward``, the cache layer's ``update``), so it holds for the Qwen, Llama, Mistral, Gemma family of
decoders. A model that names its parts otherwise lands in ``other``: look at that share before trusting the rest.
"""

from collections.abc import Callable

from lib.live_bytes import Allocation

CACHE, LOGITS, SCORES, ATTENTION = "cache", "logits", "attention scores", "attention"
MLP, HIDDEN, LOSS, OTHER = "mlp activations", "hidden states", "loss", "other"

_BY_AUTHOR = (  # the first suffix that matches decides
    (("Layer.update",), CACHE),
    (("ForCausalLM.forward", "LMHeadModel.forward"), LOGITS),
    (("ForCausalLMLoss", "cross_entropy"), LOSS),
    (("MLP.forward", "Activation.forward"), MLP),
    (("Attention.forward", "attention_forward", "apply_rotary_pos_emb", "rotate_half", "repeat_kv"), ATTENTION),
    (("RMSNorm.forward", "DecoderLayer.forward", "Model.forward", "RotaryEmbedding.forward"), HIDDEN),
)


def decoder_kinds(head_dim: int) -> Callable[[Allocation], str]:
    """A classifier for ``Peak.by_kind``. head_dim tells scores (…, n) from attention output (…, head_dim).

    Where n happens to equal head_dim the two cannot be told apart by shape: measure at another length.
    """

    def kind(allocation: Allocation) -> str:
        found = next((kind for suffixes, kind in _BY_AUTHOR if allocation.where.endswith(suffixes)), OTHER)
        written_out = allocation.where.endswith("eager_attention_forward")
        return SCORES if written_out and allocation.shape[-1] != head_dim else found

    return kind
