"""Capturing what flows through a decoder: the residual stream after every block, and what linear layers read.

*Layer k* here is the output of block k, counted from 0: the residual stream after block k has added its attention and
its MLP, before the next block's normalization. In transformers' ``output_hidden_states`` that is entry k + 1 (entry 0
is the embedding), except for the last block, whose entry there has already been through the final norm and is no
residual stream any more. Whoever counts the embedding as layer 0 calls our layer k "layer k + 1".

Everything is read by forward hooks, which are removed on every way out, errors included.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel, PretrainedConfig, PreTrainedModel

from lib.unmeasurable import Unmeasurable

Edit = Callable[[Tensor], Tensor]


class _Reached(Exception):
    """The last block of interest has run; the rest of the pass would be thrown away."""


def decoder_blocks(model: PreTrainedModel) -> list[nn.Module]:
    """The model's blocks in order. Raises Unmeasurable for an architecture that keeps them elsewhere."""
    blocks = getattr(model.base_model, "layers", None)
    if not isinstance(blocks, nn.ModuleList) or len(blocks) == 0:
        raise Unmeasurable(f"{type(model).__name__} has no list of decoder blocks at .layers: cannot read its stream")
    return list(blocks)


@torch.no_grad()
def residual_stream(
    model: PreTrainedModel, ids: Tensor, *, last_block: int | None = None, edits: Mapping[int, Edit] | None = None
) -> Tensor:
    """The residual stream after every block, from one pass over ids (B, T): (L, B, T, D), float32, on the CPU.

    last_block: stop there, so that L = last_block + 1 and the later blocks cost nothing. edits: block index → function
    that receives that block's output (B, T, D) and returns what the next block reads (and what is recorded) instead.
    No padding: every row of ids is real tokens. Raises ValueError for an index the model does not have.
    """
    blocks = decoder_blocks(model)
    end = len(blocks) - 1 if last_block is None else last_block
    if not all(0 <= index < len(blocks) for index in (end, *(edits or {}))):
        raise ValueError(f"the model's blocks are 0 to {len(blocks) - 1}")
    return torch.stack(_capture(model, blocks[: end + 1], edits or {}, input_ids=ids.to(model.device)))


@contextmanager
def watch_linear_inputs(model: nn.Module, keep: Edit) -> Iterator[dict[str, Tensor]]:
    """Inside the block, collect ``keep(x)`` of every nn.Linear's input x (B, T, in), by the layer's module name.

    Linear layers that read one tensor (queries, keys, values) each get an entry. A layer that runs twice keeps the
    last. Yields the dictionary that fills up as the model runs; the hooks are gone when the block ends.
    """
    seen: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[..., None]:
        def record(_module: nn.Module, args: tuple[Any, ...]) -> None:
            seen[name] = keep(args[0].detach())

        return record

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                hooks.callback(module.register_forward_pre_hook(hook(name)).remove)
        yield seen


@torch.no_grad()
def linear_inputs(model: PreTrainedModel, ids: Tensor, keep: Edit = torch.clone) -> dict[str, Tensor]:
    """What every linear layer inside the blocks reads in one pass over ids (B, T): module name → keep(input).

    These are the tensors that an engine with 8-bit activations rounds (normalized streams, attention outputs, gated
    products); the residual stream itself is never the input of a product. The output head is not run.
    """
    decoder_blocks(model)
    with watch_linear_inputs(model.base_model, keep) as seen:
        model.base_model(input_ids=ids.to(model.device), use_cache=False)
    return seen


@torch.no_grad()
def random_residual_stream(config: PretrainedConfig, ids: Tensor, seed: int = 0) -> Tensor:
    """`residual_stream` of the same architecture with freshly initialised weights: (L, B, T, D), float32.

    One block lives at a time (block k is seeded with seed + k), so that it costs the memory of one block instead of a
    second model. Equal ids get equal embeddings; ids that do not occur get none.
    """
    tokens, local = torch.unique(ids, return_inverse=True)
    kept: list[Tensor] = []
    for index in range(config.num_hidden_layers):
        model = _one_random_block(config, len(tokens), seed + index)
        stream = kept[-1] if kept else model.get_input_embeddings()(local)
        kept += _capture(model, decoder_blocks(model), {}, inputs_embeds=stream)
    return torch.stack(kept)


def _one_random_block(config: PretrainedConfig, vocab: int, seed: int) -> PreTrainedModel:
    small = copy.deepcopy(config)
    small.num_hidden_layers, small.vocab_size, small.pad_token_id = 1, vocab, None
    if getattr(small, "layer_types", None):
        small.layer_types = small.layer_types[:1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModel.from_config(small, dtype=torch.float32).eval()
    return model


def _capture(
    model: PreTrainedModel, blocks: Sequence[nn.Module], edits: Mapping[int, Edit], **inputs: Tensor
) -> list[Tensor]:
    """The outputs of these blocks, the model's first ones; the pass ends after the last of them."""
    kept: list[Tensor] = []

    def hook(index: int) -> Callable[..., Any]:
        def record(_module: nn.Module, _args: Any, output: Any) -> Any:
            stream, changed = _edited(output, edits.get(index))
            kept.append(stream.float().cpu())
            if index == len(blocks) - 1:
                raise _Reached
            return changed

        return record

    with ExitStack() as hooks:
        for index, block in enumerate(blocks):
            hooks.callback(block.register_forward_hook(hook(index)).remove)
        with suppress(_Reached):
            model.base_model(**inputs, use_cache=False)
    return kept


def _edited(output: Any, edit: Edit | None) -> tuple[Tensor, Any]:
    """The stream in a block's output, and the output as the next block shall see it."""
    stream: Tensor = output[0] if isinstance(output, tuple) else output
    if edit is None:
        return stream, output
    changed = edit(stream.clone())
    return changed, (changed, *output[1:]) if isinstance(output, tuple) else changed
