"""Floating-point operations of whatever a model does in a while, counted by its tokens: next to no cost of its own.

Every token that enters meets each projection once, every logit row the output embedding; a multiply-accumulate is two
operations. Products inside attention are left out: at windows of some hundred tokens they are below two percent.
torch's own counter sees every operation, and makes a small pass a fifth slower.
"""

from __future__ import annotations

from types import TracebackType

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.weight_stats import projection_weights


class TokenFlops:
    """Counts while it is entered. Hooks on the two embeddings, removed again at the end."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._tokens = self._rows = 0
        self._hooks: list[object] = []

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self._model.device

    def __enter__(self) -> TokenFlops:
        self._hooks = [
            self._model.get_input_embeddings().register_forward_pre_hook(self._enter_tokens),
            self._model.get_output_embeddings().register_forward_pre_hook(self._enter_rows),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, object]) -> TokenFlops:
        """A copy of the model, in another format or with other weights, has as many: its passes count here as well."""
        return self

    def total(self, more_rows: int = 0) -> int:
        """FLOPs so far; `more_rows` logit rows were computed beside the output embedding's module."""
        body = sum(weights.numel() for weights in projection_weights(self._model).values())
        head: int = self._model.get_output_embeddings().weight.numel()
        return 2 * (body * self._tokens + head * (self._rows + more_rows))

    def _enter_tokens(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        self._tokens += arguments[0].numel()

    def _enter_rows(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        self._rows += arguments[0].shape[:-1].numel()
