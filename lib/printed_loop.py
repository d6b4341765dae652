"""The chapter's prefill-and-decode loop, call for call, so that what runs is what is printed.

Everything else in this project goes through ``lib.decoding``. Only this file uses the argument and the output field
of older transformers releases, because the statement under test is that they work.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
