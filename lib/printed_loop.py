"""The chapter's prefill-and-decode loop, call for call, so that what runs is what is printed.

Everything else in this project goes through ``lib.decoding``. Only this file uses the argument and the output field
of older transformers releases, because the statement under test is that they work.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lib.live_bytes import Peak, peak_of

_REMOVED_IN = re.compile(r"removed (?:in|starting from) version (\d[\w.]*\w)")


def printed_loop(model: Any, prompt_ids: Tensor, n: int) -> tuple[Tensor, list[int]]:
    """Run the loop for n tokens; returns the tokens (B, n) and how many positions each forward pass was fed.

    The printed loop drops its tokens; collecting them is our one addition. Like the printed one it sets no gradient
    mode: under torch's default every pass joins one growing autograd graph.
    """
    fed = [prompt_ids.shape[1]]
    out = model(prompt_ids, use_cache=True)
    past = out.past_key_values
    nxt = out.logits[:, -1].argmax(-1, keepdim=True)
    tokens = [nxt]
    for _ in range(n - 1):
        fed.append(nxt.shape[1])
        out = model(nxt, past_key_values=past, use_cache=True)
        past = out.past_key_values
        nxt = out.logits[:, -1].argmax(-1, keepdim=True)
        tokens.append(nxt)
    return torch.cat(tokens, dim=1), fed


@dataclass(frozen=True)
class LoopRun:
    """The loop on the installed transformers.

    tokens: (B, n), none at all if it does not run. fed: positions per forward pass. warned: deprecation warnings.
    removal: the release that they name as the one that drops an argument of the loop, empty if none is named.
    failure: the error, empty if it ran.
    """

    tokens: Tensor
    fed: list[int]
    warned: int
    removal: str
    failure: str

    @property
    def ran(self) -> bool:
        """Whether the loop came to its end."""
        return not self.failure


def run_printed_loop(model: Any, prompt_ids: Tensor, n: int) -> LoopRun:
    """Run the printed loop without gradients, catching what the installed release says about its arguments."""
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        try:
            tokens, fed = printed_loop(model, prompt_ids, n)
        except (TypeError, AttributeError) as error:  # an argument or a field that is gone
            return LoopRun(prompt_ids[:, :0], [], len(caught), "", str(error))
    deprecations = [str(w.message) for w in caught if issubclass(w.category, FutureWarning | DeprecationWarning)]
    releases = [match[1] for text in deprecations if (match := _REMOVED_IN.search(text))]
    return LoopRun(tokens, fed, len(deprecations), releases[0] if releases else "", "")


def printed_loop_peak(model: Any, prompt_ids: Tensor, n: int, gradients: bool) -> Peak:
    """Live bytes of the loop for n tokens, with torch's default gradient mode or without gradients."""
    with warnings.catch_warnings(), torch.set_grad_enabled(gradients):
        warnings.simplefilter("ignore", FutureWarning)
        return peak_of(lambda: printed_loop(model, prompt_ids, n))[1]
