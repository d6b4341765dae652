"""What a forward pass leaves in memory for a backward pass, what it leaves without one, and what recomputing saves.

Kept bytes are read when the forward pass has returned: what is alive then is held by its output or by the autograd
graph behind it. Recomputing is gradient checkpointing (Chen et al. 2016, arXiv:1604.06174): only the layers' inputs are
kept, and the rest is computed a second time during the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from lib.decoding import random_tokens, refuse_beyond
from lib.live_bytes import Peak, peak_of
from lib.slim_models import SLIM_VOCABULARY, slim_config

ADAM_COPIES = 4  # weights, gradients and the two moments, all in the weights' format
SCHEME_LAYERS = 4  # enough that a layer's input and a layer's inside are told apart


@dataclass(frozen=True)
class Keeping:
    """What forward passes leave behind: bytes by number of tokens with gradients, and at the longest without."""

    kept_bytes: Mapping[int, int]
    inference_bytes: int
    longest: Peak

    @property
    def bytes_per_token(self) -> float:
        """Kept bytes per further token, between the shortest and the longest pass."""
        short, long = min(self.kept_bytes), max(self.kept_bytes)
        return (self.kept_bytes[long] - self.kept_bytes[short]) / (long - short)

    @property
    def over_inference(self) -> float:
        """Kept with gradients over kept without, at the longest."""
        return self.kept_bytes[max(self.kept_bytes)] / self.inference_bytes


@dataclass(frozen=True)
class Scheme:
    """One way to get a gradient: bytes kept between the passes, bytes ever made in the forward, and the gradient."""

    kept_bytes: int
    made_bytes: int
    gradient: tuple[Tensor, ...]

    @property
    def kept_share(self) -> float:
        """The part of all bytes made in the forward pass that is still there when the backward pass begins."""
        return self.kept_bytes / self.made_bytes


def forward_with_loss(model: PreTrainedModel, ids: Tensor, gradients: bool) -> Peak:
    """Live bytes of one forward pass over ids (1, n) with the language-modelling loss; ``end_bytes`` is what is kept.

    Leaves no gradient behind: the graph dies with the output.
    """
    refuse_beyond(model, ids.shape[1])
    with torch.set_grad_enabled(gradients):
        output, peak = peak_of(lambda: model(ids.to(model.device), labels=ids.to(model.device), use_cache=False))
    del output
    return peak


def keeping(model: PreTrainedModel, lengths: Sequence[int]) -> Keeping:
    """Follow one forward pass over random tokens at each length, with gradients; at the longest without them too."""
    ids = {n: random_tokens(n, model.config.get_text_config().vocab_size) for n in lengths}
    peaks = {n: forward_with_loss(model, row, gradients=True) for n, row in ids.items()}
    free = forward_with_loss(model, ids[max(lengths)], gradients=False)
    return Keeping({n: peak.end_bytes for n, peak in peaks.items()}, free.end_bytes, peaks[max(lengths)])


def training_state_bytes(model: PreTrainedModel) -> int:
    """Bytes that an Adam step keeps whatever the batch: weights, gradients, two moments. Tied tensors once."""
    return ADAM_COPIES * sum(p.numel() * p.element_size() for p in model.parameters())


def plain_and_recomputing(config: PretrainedConfig, tokens: int) -> tuple[Scheme, Scheme]:
    """The same gradient twice, on a few layers of this architecture at full width with seeded random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        slim = slim_config(config, num_hidden_layers=SCHEME_LAYERS)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(slim, dtype=torch.float32)
    model.train()
    ids = random_tokens(tokens, SLIM_VOCABULARY)
    plain = _scheme(model, ids)
    model.activation_checkpointing_enable()
    return plain, _scheme(model, ids)


def same_gradient(a: Scheme, b: Scheme) -> bool:
    """Whether two schemes gave the same gradient, bit for bit."""
    return all(torch.equal(x, y) for x, y in zip(a.gradient, b.gradient, strict=True))


def _scheme(model: PreTrainedModel, ids: Tensor) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a model with dropout drops the same in both
        loss, peak = peak_of(lambda: model(ids, labels=ids, use_cache=False).loss)
        model.zero_grad()
        loss.backward()
    gradient = tuple(p.grad.clone() for p in model.parameters() if p.grad is not None)
    return Scheme(peak.end_bytes, peak.allocated_bytes, gradient)
