"""Prefill and greedy decoding: the one adapter between this project and transformers' cache API.

Written against transformers 5.24, where a forward pass takes the cache as ``cache=`` (``past_key_values=`` is renamed
on the fly with a FutureWarning until 5.40, then gone) and hands it back as ``output.cache``. Nothing else in the
project calls a model with a cache, so the next rename is a change to this file alone.

Greedy means greedy: the highest logit wins, a tie goes to the lowest id, and no logits processor runs. In particular
no repetition penalty, whatever the model's generation config says.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache

from lib.unmeasurable import Unmeasurable

ALL_POSITIONS = 0  # transformers' own code for ``logits_to_keep``: a logit row for every position


@dataclass(frozen=True)
class Prefilled:
    """What one pass over a prompt leaves behind.

    cache: keys and values of every prompt position, all layers; later calls grow it in place.
    logits: (B, kept, vocab), the last ``kept`` prompt positions.
    """

    cache: Cache
    logits: Tensor


@dataclass(frozen=True)
class Generated:
    """tokens: (B, n) chosen ids. logits: (B, n, vocab) the row each id was chosen from, or None if not asked for."""

    tokens: Tensor
    logits: Tensor | None = None


def random_tokens(n: int, vocab: int, seed: int = 0, batch: int = 1) -> Tensor:
    """Uniform token ids, (batch, n) int64, the same for the same arguments on every machine."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocab, (batch, n), generator=generator)


@torch.no_grad()
def forward(  # noqa: PLR0913 (one pass has these choices, and every caller makes other ones)
    model: PreTrainedModel,
    ids: Tensor,
    *,
    cache: Cache | None = None,
    use_cache: bool = False,
    logits_to_keep: int = 1,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Any:
    """One forward pass without gradients; returns transformers' output object (``.logits``, ``.cache``).

    cache: grown in place by the n positions, together with ``use_cache``; without either nothing is cached.
    ids: (B, n) int64, moved to the model's device. logits_to_keep: how many trailing positions get logits,
    ``ALL_POSITIONS`` for every one. attention_mask: (B, cached + n), 1 for real tokens; None when nothing is padded.
    position_ids: (B, n), for padded rows of a model with absolute positions; None leaves them to the model. Raises
    Unmeasurable where the model has fewer positions.
    """
    refuse_beyond(model, (cached_tokens(cache) if cache is not None else 0) + ids.shape[1])
    mask = None if attention_mask is None else attention_mask.to(model.device)
    # not every model takes positions, so the argument is only there when a caller has some
    positions = {} if position_ids is None else {"position_ids": position_ids.to(model.device)}
    return model(
        ids.to(model.device), cache=cache, use_cache=use_cache, logits_to_keep=logits_to_keep, attention_mask=mask,
        **positions,
    )  # fmt: skip


def prefill(
    model: PreTrainedModel,
    ids: Tensor,
    logits_to_keep: int = 1,
    attention_mask: Tensor | None = None,
    *,
    position_ids: Tensor | None = None,
) -> Prefilled:
    """Run the prompt ids (B, P) once and keep its keys and values in a fresh cache.

    Raises ValueError for an empty prompt, RuntimeError if the model did not cache exactly P positions, Unmeasurable
    where its layers would not keep them all.
    """
    if ids.ndim != 2 or ids.shape[1] == 0:
        raise ValueError(f"a prompt is (batch, at least one token), not {tuple(ids.shape)}")
    refuse_beyond(model, ids.shape[1], kept=True)
    out = forward(
        model, ids, use_cache=True, logits_to_keep=logits_to_keep, attention_mask=attention_mask,
        position_ids=position_ids,
    )  # fmt: skip
    _check_length(out.cache, ids.shape[1])
    return Prefilled(out.cache, out.logits)


def decode_step(  # noqa: PLR0913 (as forward)
    model: PreTrainedModel,
    tokens: Tensor,
    cache: Cache,
    logits_to_keep: int = 1,
    attention_mask: Tensor | None = None,
    *,
    position_ids: Tensor | None = None,
) -> Tensor:
    """Feed tokens (B, n), normally n = 1, on top of the cache; returns logits (B, kept, vocab).

    The cache grows by n positions *in place*: use a fresh one, or ``rollback``, for a second measurement.
    """
    start = cached_tokens(cache)
    refuse_beyond(model, start + tokens.shape[1], kept=True)
    out = forward(
        model, tokens, cache=cache, use_cache=True, logits_to_keep=logits_to_keep, attention_mask=attention_mask,
        position_ids=position_ids,
    )  # fmt: skip
    _check_length(cache, start + tokens.shape[1])
    logits: Tensor = out.logits
    return logits


def refuse_beyond(model: PreTrainedModel, positions: int, *, kept: bool = False) -> None:
    """Raise Unmeasurable where a model has fewer positions, or, where all are to be kept, layers that keep fewer."""
    most = most_positions(model)
    if most is not None and positions > most:
        raise Unmeasurable(f"this model has {most:,} positions, {positions:,} are needed")
    window = sliding_window(model.config)
    if kept and window is not None and positions >= window:
        raise Unmeasurable(f"this model's layers keep {window - 1:,} positions at most, {positions:,} are needed")


def refuse_broken(model: PreTrainedModel, ids: Tensor) -> None:
    """Raise Unmeasurable where logits on these ids (B, n) are not finite: argmax takes NaN for the largest."""
    if not bool(forward(model, ids, logits_to_keep=ALL_POSITIONS).logits.isfinite().all()):
        raise Unmeasurable("this model's logits on these tokens are not finite: it chooses nothing")


def most_positions(model: PreTrainedModel) -> int | None:
    """How many positions a model has learned; None where they have no end (rotary ones)."""
    learned = getattr(model.base_model, "wpe", None)  # GPT-2's name
    return learned.num_embeddings if isinstance(learned, torch.nn.Embedding) else None


def sliding_window(config: PreTrainedConfig) -> int | None:
    """The last so many positions that some layer sees; None where every layer sees all of them."""
    text = config.get_text_config()
    window, kinds = getattr(text, "sliding_window", None), getattr(text, "layer_types", None)
    slides = "sliding_attention" in kinds if kinds else getattr(text, "use_sliding_window", True)
    return int(window) if window and slides else None


def greedy_choice(logits: Tensor) -> Tensor:
    """(B, n, vocab) → (B, 1): the highest logit of the last position, the lowest id among equals."""
    return logits[:, -1].argmax(-1, keepdim=True)  # torch documents: the first of several maxima


def greedy_cached(
    model: PreTrainedModel, ids: Tensor, n: int, *, keep_logits: bool = False, logits_to_keep: int = 1
) -> Generated:
    """Exactly n ≥ 1 greedy tokens after the prompt ids (B, P): one prefill, then n - 1 steps of one token each.

    End-of-sequence tokens do not stop it. logits_to_keep concerns the prefill only.
    """
    start = prefill(model, ids, logits_to_keep)
    cache, logits = start.cache, start.logits
    del start  # or it would keep the prompt's logits alive to the end
    tokens, rows = [greedy_choice(logits)], [logits[:, -1:].clone()] if keep_logits else []
    for _ in range(n - 1):
        del logits  # no pass is charged with its predecessor's output
        logits = decode_step(model, tokens[-1], cache)
        tokens.append(greedy_choice(logits))
        rows += [logits] if keep_logits else []
    return _generated(tokens, rows)


def greedy_uncached(
    model: PreTrainedModel, ids: Tensor, n: int, *, keep_logits: bool = False, logits_to_keep: int = 1
) -> Generated:
    """Exactly n greedy tokens, each from a pass over the whole sequence so far, no cache anywhere.

    logits_to_keep: ``ALL_POSITIONS`` is the naive loop, which computes the logits of every position at each step.
    """
    sequence, rows, tokens = ids.to(model.device), [], []
    for _ in range(n):
        logits = forward(model, sequence, logits_to_keep=logits_to_keep).logits
        tokens.append(greedy_choice(logits))
        if keep_logits:
            rows.append(logits[:, -1:].clone())
        del logits
        sequence = torch.cat([sequence, tokens[-1]], dim=1)
    return _generated(tokens, rows)


def greedy_generate(model: PreTrainedModel, ids: Tensor, n: int, repetition_penalty: float) -> Tensor:
    """The same n tokens (B, n) from transformers' own ``generate``, with the penalty spelled out: 1.0 is none.

    Everything else that could change a greedy choice is off, and no token ends it early.
    """
    config = GenerationConfig(
        max_new_tokens=n, do_sample=False, num_beams=1, repetition_penalty=repetition_penalty,
        eos_token_id=model.config.get_text_config().vocab_size,  # an id that cannot occur
        pad_token_id=0, no_repeat_ngram_size=0,
    )  # fmt: skip
    prompt = ids.to(model.device)
    out: Tensor = model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)  # type: ignore[operator]
    return out[:, prompt.shape[1] :]


def layer_tensors(cache: Cache) -> list[tuple[Tensor, Tensor]]:
    """The cached (K, V) of every layer, first layer first; each (B, H_kv, n, head_dim). The tensors, not copies.

    Raises TypeError for a layer that keeps no keys and values (linear attention, or nothing cached yet).
    """
    pairs: list[tuple[Tensor, Tensor]] = []
    for layer in cache.layers:
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None:
            raise TypeError(f"a {type(layer).__name__} holds no keys and values")
        pairs.append((keys, values))
    return pairs


def cached_tokens(cache: Cache) -> int:
    """How many positions the cache holds."""
    return int(cache.get_seq_length())


def rollback(cache: Cache, length: int) -> None:
    """Forget everything after the first ``length`` positions, in place.

    The layers keep *views* of the longer tensors until the next step copies them, so storage shrinks only then.
    Raises ValueError when the cache holds fewer positions than that.
    """
    surplus = cached_tokens(cache) - length
    if surplus < 0 or length < 0:
        raise ValueError(f"cannot roll a cache of {cached_tokens(cache)} positions back to {length}")
    cache.crop(-surplus)  # transformers 5 takes the number to remove, as a negative integer


def _generated(tokens: list[Tensor], rows: list[Tensor]) -> Generated:
    return Generated(torch.cat(tokens, dim=1), torch.cat(rows, dim=1) if rows else None)


def _check_length(cache: Cache, expected: int) -> None:
    if cached_tokens(cache) != expected:
        raise RuntimeError(f"the cache holds {cached_tokens(cache)} positions where {expected} were expected")
