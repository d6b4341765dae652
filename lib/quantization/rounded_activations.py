"""A model whose activations are, for a while, rounded to 8 bits: what its linear layers read, or its residual stream.

An edit maps a tensor (B, T, D) to one of the same shape. "One scale per tensor" is one for all B * T tokens of a pass,
as in an engine; a decode step of a single sequence has one token, so that there it is one scale per token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.activations import decoder_blocks
from lib.quantization.mixed import rounded
from lib.quantization.recovery import token_error

Edit = Callable[[Tensor], Tensor]


def per_tensor(values: Tensor) -> Tensor:
    """Values (B, T, D) under one scale."""
    return rounded(values.flatten(0, -2), shared=True).view_as(values)


def per_token(values: Tensor) -> Tensor:
    """Values (B, T, D) under one scale for each of the B * T tokens."""
    return rounded(values.flatten(0, -2)).view_as(values)


def sparing_first(edit: Edit) -> Edit:
    """The edit of all but the first token of each row, which stays as it is and has no part in any scale."""
    return lambda values: torch.cat([values[:, :1], edit(values[:, 1:])], dim=1)


def sparing_top(edit: Edit, count: int) -> Edit:
    """The edit of all but the `count` dimensions with the largest magnitudes, which stay and have no part in a scale.

    All of them are spared where the tensor has no more.
    """

    def spared(values: Tensor) -> Tensor:
        sizes = values.flatten(0, -2).abs().amax(0)
        top = sizes.topk(min(count, len(sizes))).indices
        others = edit(values.index_fill(-1, top, 0.0))
        return others.index_copy(-1, top, values[..., top])

    return spared


def lost_per_token(edit: Edit) -> Edit:
    """What a hook keeps of values (B, T, D): the median over tokens of ||x - x̂|| / ||x||, a tensor of one number."""

    def measure(values: Tensor) -> Tensor:
        return torch.tensor(token_error(values.flatten(0, -2), edit(values).flatten(0, -2)))

    return measure


@contextmanager
def inputs_edited(model: nn.Module, edits: Mapping[str, Edit]) -> Iterator[nn.Module]:
    """The model with what these linear layers read edited, by their names; hooks are gone when the block ends.

    Raises ValueError for a name that is no linear layer, before anything changes.
    """
    layers = {name: module for name, module in model.named_modules() if name in edits and isinstance(module, nn.Linear)}
    if set(layers) != set(edits):
        raise ValueError(f"no linear layers of this model: {', '.join(sorted(set(edits) - set(layers)))}")

    def hook(edit: Edit) -> Callable[..., Any]:
        return lambda _module, args: (edit(args[0]), *args[1:])

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hooks.callback(layer.register_forward_pre_hook(hook(edits[name])).remove)
        yield model


@contextmanager
def stream_edited(model: PreTrainedModel, edit: Edit) -> Iterator[PreTrainedModel]:
    """The model with its residual stream edited after every block; the next block, or the last norm, reads that."""

    def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
        return (edit(output[0]), *output[1:]) if isinstance(output, tuple) else edit(output)

    with ExitStack() as hooks:
        for block in decoder_blocks(model):
            hooks.callback(block.register_forward_hook(hook).remove)
        yield model
