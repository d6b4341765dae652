"""Two requests whose prompts begin alike, on one engine: which blocks they share, and whether either notices."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel

from lib.decoding import random_tokens
from lib.serving.engine import Engine, Settings
from lib.serving.reference import solo
from lib.serving.requests import GenerationRequest

FIRST, SECOND = "first", "second"


@dataclass(frozen=True)
class SharedPrefix:
    """blocks: held by both requests at once. sequences: how many hold each of them (0 without any).

    tokens_that_differ: of both replies, against their solo runs. shifted_blocks: shared when the common tokens do not
    begin the second prompt but follow a whole block of other ones.
    """

    blocks: int
    sequences: int
    tokens_that_differ: int
    shifted_blocks: int


def shared_prefix(model: PreTrainedModel, prefix: int, own: int, new: int, block_size: int) -> SharedPrefix:
    """Random prompts, `prefix` tokens in common and `own` of each, `new` greedy tokens; the first starts earlier."""
    vocabulary = model.config.get_text_config().vocab_size
    ids = random_tokens(prefix + 2 * own + block_size, vocabulary, seed=prefix)[0].tolist()
    common, one, two = ids[:prefix], ids[prefix : prefix + own], ids[prefix + own : prefix + 2 * own]
    other = ids[prefix + 2 * own :]
    requests = [
        GenerationRequest(FIRST, tuple(common + one), new),
        GenerationRequest(SECOND, tuple(common + two), new),
    ]
    engine, shared = _both(model, requests, block_size)
    differing = sum(
        a != b
        for request in requests
        for a, b in zip(engine.records[request.id].tokens, solo(model, request).tokens, strict=True)
    )
    shifted = [requests[0], GenerationRequest(SECOND, tuple(other + common + two), new)]
    _, moved = _both(model, shifted, block_size)
    return SharedPrefix(len(shared), max(shared.values(), default=0), differing, len(moved))


def _both(model: PreTrainedModel, requests: list[GenerationRequest], block_size: int) -> tuple[Engine, dict[int, int]]:
    """Serve them; the blocks that both hold while both run, with how many sequences hold each."""
    blocks = sum(-(-request.positions // block_size) for request in requests)
    engine = Engine(model, Settings(len(requests), blocks, block_size))
    engine.submit(requests[0])
    engine.step()
    engine.submit(requests[1])
    engine.step()
    both = set(engine.cache.table(FIRST)) & set(engine.cache.table(SECOND))
    held = {block: engine.cache.references(block) for block in both}
    engine.run()
    return engine, held
