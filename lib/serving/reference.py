"""What a served request is held against: its solo run, and transformers' own continuous batching.

Two runs of the same sums in another order may choose differently where the two highest scores are closer than
rounding; after that they write different texts. So a reference keeps, for every choice, how far the best was ahead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, PreTrainedModel

from lib.decoding import decode_step, prefill
from lib.greedy_compare import top2_gap
from lib.serving.requests import GenerationRequest
from lib.serving.sampling import Chooser, choice

NO_END = -1  # transformers' own code for "no id ends a reply"
WAIT_S = 1.0  # for a result, before the thread is looked after


@dataclass(frozen=True)
class Solo:
    """tokens: the reply. gaps: how far each choice's score was ahead of the next, in logits (of the temperature's)."""

    tokens: tuple[int, ...]
    gaps: tuple[float, ...]

    def parts_at(self, tokens: Sequence[int]) -> int | None:
        """The first token at which another reply differs, a missing or a further one included; None if none does."""
        for i, (ours, theirs) in enumerate(zip(self.tokens, tokens, strict=False)):
            if ours != theirs:
                return i
        return None if len(self.tokens) == len(tokens) else min(len(self.tokens), len(tokens))

    def equals(self, tokens: Sequence[int], rounding: float) -> bool:
        """Whether the other reply is this one, or parts from it only where the choice was within rounding."""
        at = self.parts_at(tokens)
        return at is None or (at < min(len(self.gaps), len(tokens)) and self.gaps[at] <= rounding)


def solo(model: PreTrainedModel, request: GenerationRequest) -> Solo:
    """A request alone: one prefill and steps of one token on transformers' growing cache, in no engine."""
    chooser, tokens, gaps = Chooser(request.sampling), list[int](), list[float]()
    if not request.max_new_tokens:
        return Solo((), ())
    start = prefill(model, torch.tensor([request.prompt]))
    logits = start.logits[0, -1]
    while True:
        scores = chooser.scores(logits)
        tokens.append(choice(scores))
        gaps.append(float(top2_gap(scores)))
        if len(tokens) == request.max_new_tokens or tokens[-1] in request.end_ids:
            return Solo(tuple(tokens), tuple(gaps))
        logits = decode_step(model, torch.tensor([tokens[-1:]]), start.cache)[0, -1]


@dataclass(frozen=True)
class TransformersSettings:
    """What transformers' manager would otherwise size by the machine's memory; page_size is at least 4."""

    slots: int
    blocks: int
    page_size: int
    budget: int
    sharing: bool = True

    def config(self) -> ContinuousBatchingConfig:
        """The same as transformers' configuration, with nothing left to its defaults that a machine decides."""
        return ContinuousBatchingConfig(
            page_size=self.page_size, num_blocks=self.blocks, max_batch_tokens=self.budget,
            max_requests_per_batch=self.slots, allow_block_sharing=self.sharing,
            use_async_batching=False, use_cuda_graph=False,
        )  # fmt: skip


def by_transformers(
    model: PreTrainedModel, requests: Sequence[GenerationRequest], settings: TransformersSettings
) -> dict[Hashable, tuple[int, ...]]:
    """Greedy replies by the machinery behind ``generate_batch``, whose own call has one limit for all requests.

    Raises ValueError for sampled requests, RuntimeError when its thread ends or a request fails.
    """
    if any(request.sampling for request in requests):
        raise ValueError("its sampled requests share one generator; only greedy ones can be compared")
    config = GenerationConfig(do_sample=False, max_new_tokens=1, eos_token_id=NO_END, pad_token_id=0)
    names = {str(number): request.id for number, request in enumerate(requests)}
    replies: dict[Hashable, tuple[int, ...]] = {}
    with model.continuous_batching_context_manager(  # type: ignore[operator]
        generation_config=config, continuous_batching_config=settings.config(), warmup=False
    ) as manager:
        for name, request in zip(names, requests, strict=True):
            ends = sorted(request.end_ids) or NO_END
            manager.add_request(
                list(request.prompt), request_id=name, max_new_tokens=request.max_new_tokens, eos_token_id=ends
            )
        while len(replies) < len(requests):
            result = manager.get_result(timeout=WAIT_S)
            if result is None and not manager.is_running():
                raise RuntimeError("transformers' generation thread has ended")
            if result is not None and result.is_finished():
                if result.error is not None:
                    raise RuntimeError(f"transformers failed on {names[result.request_id]!r}: {result.error}")
                replies[names[result.request_id]] = tuple(result.generated_tokens)
    return replies
