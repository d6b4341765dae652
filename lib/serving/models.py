"""Which models the engine can serve exactly, and why it refuses the others."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import torch
from transformers import PreTrainedModel

from lib.cache_bytes import CacheShape, cache_shape
from lib.paged_cache.storage import PagedStorage
from lib.serving.attention import PackedRow, Span, packed_forward
from lib.unmeasurable import Unmeasurable

# These recompute their frequencies from the longest position of a pass, so a neighbour would change a request's tokens.
NEIGHBOURLY_ROPE = frozenset({"dynamic", "longrope"})


class UnsupportedModel(Unmeasurable):
    """The engine would not compute what this model computes alone."""


def served_shape(model: PreTrainedModel) -> CacheShape:
    """The cache's shape of a model that can be served; raises UnsupportedModel with its name and the reason.

    Raises ValueError (UnknownCacheShape) for a cache that is not plain keys and values.
    """
    reason = _obstacle(model, model.config.get_text_config())
    if reason:
        raise UnsupportedModel(f"{_name(model)}: {reason}")
    return cache_shape(model.config)


def probe(model: PreTrainedModel, storage: PagedStorage) -> None:
    """One token through the model, before anybody is served: what its layers ask of attention shows only there.

    Raises UnsupportedModel where paged attention cannot do it. Writes the first position of the storage.
    """
    one = torch.zeros(1, dtype=torch.int64, device=model.device)
    groups = model.config.get_text_config().num_attention_heads // storage.shape.kv_heads
    try:
        packed_forward(model, one, one, PackedRow(storage, [Span(0, 1, 0, one)], groups), one)
    except (TypeError, ValueError) as error:
        raise UnsupportedModel(f"{_name(model)}: {error}") from error


def longest(model: PreTrainedModel) -> int | None:
    """How many positions the model has, None if its configuration does not say."""
    found = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return None if found is None else int(found)


def _name(model: PreTrainedModel) -> str:
    return PurePath(str(model.config.name_or_path)).name or type(model).__name__  # no path of this machine in a record


def _obstacle(model: PreTrainedModel, config: Any) -> str:
    if model.training:
        return "in training mode, with dropout; call eval() first"
    if model.config.is_encoder_decoder:
        return "an encoder-decoder, whose cross-attention has no place in this cache"
    if model._is_stateful:
        return "keeps a state per sequence beside keys and values, which block tables do not hold"
    if not model._supports_attention_backend:
        return "its attention cannot be replaced through transformers' attention interface"
    if not model._supports_logits_to_keep():  # type: ignore[operator]
        return "it cannot be asked for the logits of some positions only"
    return _window(config) or _rope(config)


def _window(config: Any) -> str:
    """A layer that sees part of the past would need its own mask and frees blocks early; neither is done here."""
    others = sorted(set(getattr(config, "layer_types", None) or ()) - {"full_attention"})
    if others:
        return f"has layers of type {', '.join(others)}; only full attention is served"
    window = getattr(config, "sliding_window", None)
    if window and getattr(config, "layer_types", None) is None and getattr(config, "use_sliding_window", True):
        return f"its layers see a sliding window of {window} tokens; only full attention is served"
    return ""


def _rope(config: Any) -> str:
    known = getattr(config, "rope_parameters", None) or {}
    by_layer_type = [nested for nested in known.values() if isinstance(nested, dict)]
    kinds = sorted({str(one.get("rope_type")) for one in (known, *by_layer_type)} & NEIGHBOURLY_ROPE)
    if kinds:
        return f"{kinds[0]} rotary embeddings depend on the longest sequence of a pass: neighbours would change tokens"
    return ""
