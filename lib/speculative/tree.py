"""Two trained models on all texts that a short sampled reply can be, for rules that are run thousands of times.

Only ids that one of the two keeps under top_k can be drawn. So a short reply has few texts, the logits after each of
them are computed once, and the ids are numbered anew: a vocabulary small enough to enumerate, with the chances that
the models really give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.decoding import decode_step, prefill
from lib.serving.requests import GenerationRequest, Sampling
from lib.speculative.drafts import Scorer
from lib.speculative.sampling import distribution

Text = tuple[int, ...]
PROMPT = (0,)  # stands for the prompt, whatever its length


@dataclass(frozen=True)
class Tree:
    """rows: text after the prompt, in new ids → the (ids,) float64 logits after it. Scores texts after PROMPT."""

    rows: Mapping[Text, Tensor]

    def logits(self, text: Sequence[int], keep: int) -> Tensor:
        """(keep, ids), looked up. Raises KeyError for a text outside the tree."""
        after = tuple(text)[len(PROMPT) :]
        return torch.stack([self.rows[after[: len(after) - keep + 1 + i]] for i in range(keep)])


def grow(models: Sequence[PreTrainedModel], prompt: Tensor, new: int, top_k: int) -> tuple[list[Tree], int]:
    """A tree of each model over what replies of ``new`` tokens to the prompt (P,) can be, and how many texts it has.

    Only for sampling with this top_k or a smaller one: under it every model's choices are among those of the tree.
    """
    found: list[dict[Text, Tensor]] = [{} for _ in models]
    level: list[Text] = [()]
    for _ in range(new):
        for rows, model in zip(found, models, strict=True):
            rows |= dict(zip(level, _after(model, prompt, level), strict=True))
        level = [(*text, token) for text in level for token in _kept([rows[text] for rows in found], top_k)]
    ids = sorted({token for text in level for token in text})
    number = {token: i for i, token in enumerate(ids)}
    trees = [
        Tree({tuple(number[token] for token in text): row[ids].cpu().double() for text, row in rows.items()})
        for rows in found
    ]
    return trees, len(found[0])


def plain_law(scorer: Scorer, request: GenerationRequest) -> dict[Text, float]:
    """The law of plain sampling: chances multiplied along every reply there is; no draft, no rule."""
    replies: dict[Text, float] = {(): 1.0}
    for _ in range(request.max_new_tokens):
        replies = {
            (*reply, token): before * chance
            for reply, before in replies.items()
            for token, chance in enumerate(_chances(scorer, request, reply))
            if chance > 0
        }
    return replies


def _chances(scorer: Scorer, request: GenerationRequest, reply: Text) -> list[float]:
    sampling = request.sampling or Sampling(0)
    found: list[float] = distribution(scorer.logits([*request.prompt, *reply], 1)[0], sampling).tolist()
    return found


def _after(model: PreTrainedModel, prompt: Tensor, texts: Sequence[Text]) -> Tensor:
    """(texts, vocab): the logits after the prompt and each of these texts, which are of one length."""
    start = prefill(model, prompt[None])
    if not texts[0]:
        return start.logits[:, -1]
    start.cache.batch_repeat_interleave(len(texts))
    return decode_step(model, torch.tensor(texts), start.cache)[:, -1]


def _kept(rows: Sequence[Tensor], top_k: int) -> list[int]:
    return sorted({token for row in rows for token in row.topk(top_k).indices.tolist()})
