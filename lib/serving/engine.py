"""A small exact serving engine: continuous or static batching of a transformers model over a paged cache.

Each step is one forward pass over one row: a token of every decoding sequence and chunks of prompts, back to back.
Every request's tokens are those of its solo run in fp32, up to choices whose two highest scores are closer than
rounding; order, batch, chunks, blocks, preemption, sharing and cancelled neighbours make no other difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from torch import Tensor
from transformers import PreTrainedModel

from lib.paged_cache.storage import PagedStorage
from lib.paged_cache.tables import PagedCache
from lib.serving.models import longest, probe, served_shape
from lib.serving.passes import Pass
from lib.serving.planner import Planner, Work
from lib.serving.requests import FINAL, GenerationRequest, OnToken, Record, State, Times
from lib.serving.sampling import Chooser, choose
from lib.serving.scheduler import Policy, Scheduler


@dataclass(frozen=True)
class Settings:
    """blocks × block_size positions of cache. budget: most new tokens a step computes, padding apart.

    padding: a finished request of a static batch goes on costing a token per step, as a row of a padded batch does.
    """

    slots: int
    blocks: int
    block_size: int
    budget: int = 256
    policy: Policy = Policy.CONTINUOUS
    sharing: bool = True
    padding: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise ValueError(f"{self.policy!r} is no Policy")


@dataclass(frozen=True)
class Step:
    """What one step did. slots: who sat where (None: nobody), working: whether it was computed, not padded.

    prefill, decode: tokens computed; new: tokens delivered; padding: rows computed for nobody.
    """

    seconds: float
    slots: tuple[Hashable | None, ...]
    working: tuple[bool, ...]
    prefill: int
    decode: int
    padding: int
    new: int


class Engine:
    """Serves requests on one model. clock: seconds, never going back.

    Raises UnsupportedModel for a model that would not be served exactly, ValueError for impossible settings.
    """

    def __init__(
        self, model: PreTrainedModel, settings: Settings, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        shape = served_shape(model)
        self.model, self.settings, self._clock = model, settings, clock
        self.cache = PagedCache(settings.blocks, settings.block_size, settings.sharing)
        storage = PagedStorage(shape, settings.blocks, settings.block_size, model.dtype, model.device)
        self._pass = Pass(model, self.cache, storage)
        probe(model, storage)
        self.scheduler = Scheduler(settings.slots, settings.policy)
        self._planner = Planner(self.cache, self.scheduler, settings.budget, storage.copy)
        self.records: dict[Hashable, Record] = {}
        self._choosers: dict[Hashable, Chooser] = {}

    def submit(self, request: GenerationRequest, on_token: OnToken | None = None) -> Record:
        """Take a request in; returns its record, which lives on. One that cannot be served is rejected at once.

        on_token runs after each step; if it raises, its request is cancelled and the others go on. Raises ValueError
        for an id that this engine has seen before.
        """
        if request.id in self.records:
            raise ValueError(f"there is a request {request.id!r} already")
        now, refusal = self._clock(), self._refusal(request)
        record = Record(request, len(self.records), Times(now), list(request.prompt), on_token)
        self.records[request.id] = record
        if refusal:
            record.end(State.REJECTED, refusal, now)
        elif not request.max_new_tokens:
            record.end(State.FINISHED, "no tokens asked for", now)
            record.times.delivered = now
        else:
            self._choosers[request.id] = Chooser(request.sampling)
            self.scheduler.enqueue(record)
        return record

    def cancel(self, name: Hashable) -> bool:
        """Stop a request wherever it is; False if it had ended already. Its tokens so far stay in its record.

        Allowed from a callback. Raises KeyError for an unknown id.
        """
        record = self.records[name]
        if record.state in FINAL:
            return False
        if record.state is State.WAITING:
            self.scheduler.withdraw(record)
        else:
            self._planner.release(record)
            self.scheduler.vacate(record)
        self._end(record, State.CANCELLED, "cancelled")
        self._close_batch()
        return True

    def step(self) -> Step | None:
        """Admit, compute one pass, deliver its tokens; None when there is nothing to do.

        An error of the model itself is raised with nothing committed, and leaves the model's attention as it was.
        """
        began = self._clock()
        for record in self.scheduler.admit(self._planner.has_room):
            record.times.admitted = began if record.times.admitted is None else record.times.admitted
        works = self._planner.plan()
        if not works:
            return None
        padding = self.scheduler.held if self.settings.padding else []
        slots, working = self._occupancy(works)
        decode = sum(work.record.state is State.DECODING for work in works)
        logits = self._pass.logits(works, padding)
        delivered = self._advance(works, logits)
        self._call_back(delivered)
        prefill = sum(work.count for work in works) - decode
        return Step(self._clock() - began, slots, working, prefill, decode, len(padding), len(delivered))

    def run(self, max_steps: int | None = None) -> list[Step]:
        """Steps until nothing is left to do. Raises RuntimeError beyond max_steps."""
        steps: list[Step] = []
        while (done := self.step()) is not None:
            steps.append(done)
            if max_steps is not None and len(steps) > max_steps:
                raise RuntimeError(f"still busy after {max_steps} steps")
        return steps

    def _refusal(self, request: GenerationRequest) -> str:
        """Why a request can never be served, "" if it can."""
        capacity = self.settings.blocks * self.settings.block_size
        vocabulary = self.model.config.get_text_config().vocab_size
        if request.positions > capacity:
            return f"needs {request.positions} positions, the whole cache has {capacity}"
        if (limit := longest(self.model)) is not None and request.positions > limit:
            return f"needs {request.positions} positions, the model has {limit}"
        if not all(0 <= token < vocabulary for token in request.prompt):
            return f"has ids outside the vocabulary of {vocabulary}"
        return ""

    def _occupancy(self, works: Sequence[Work]) -> tuple[tuple[Hashable | None, ...], tuple[bool, ...]]:
        computed = {work.record.number for work in works}
        slots = self.scheduler.slots
        return (
            tuple(None if record is None else record.request.id for record in slots),
            tuple(record is not None and record.number in computed for record in slots),
        )

    def _advance(self, works: Sequence[Work], logits: Tensor) -> list[tuple[Record, int]]:
        """Choose tokens, then commit what was computed: an error in between leaves a step that can be repeated."""
        ending = [work.record for work in works if work.last]
        tokens = choose([self._choosers[record.request.id] for record in ending], logits)
        for work in works:
            self.cache.commit(work.record.request.id, work.tokens)
            work.record.cached += work.count
        chosen = self._without_refused(ending, tokens)
        now = self._clock()  # after the choices: until then a GPU may still be computing
        for record, token in chosen:
            record.state = State.DECODING
            record.text.append(token)
            record.times.tokens.append(now)
            self._maybe_finish(record, token)
        self._close_batch()
        return chosen

    def _without_refused(self, records: Sequence[Record], tokens: Sequence[int | None]) -> list[tuple[Record, int]]:
        """Who got which token; a request without numbers in its row of logits ends here."""
        for record, token in zip(records, tokens, strict=True):
            if token is None:
                self._leave(record, State.REJECTED, "logits that are not numbers (NaN or infinite)")
        return [(record, token) for record, token in zip(records, tokens, strict=True) if token is not None]

    def _maybe_finish(self, record: Record, token: int) -> None:
        request = record.request
        if token in request.end_ids:
            self._leave(record, State.FINISHED, "end id")
        elif len(record.tokens) == request.max_new_tokens:
            self._leave(record, State.FINISHED, "length")

    def _leave(self, record: Record, state: State, reason: str) -> None:
        """End an active request; in a static batch it keeps its slot and blocks."""
        self._end(record, state, reason)
        if self.settings.policy is Policy.CONTINUOUS:
            self._hand_over(record)

    def _hand_over(self, record: Record) -> None:
        """Give back slot and blocks, and the reply with them."""
        self._planner.release(record)
        self.scheduler.vacate(record)
        record.times.delivered = self._clock()

    def _close_batch(self) -> None:
        """When nobody in the slots is active, hand over all who waited for it."""
        if not self.scheduler.active:
            for record in self.scheduler.held:
                self._hand_over(record)

    def _end(self, record: Record, state: State, reason: str) -> None:
        record.end(state, reason, self._clock())
        self._choosers.pop(record.request.id, None)

    def _call_back(self, delivered: Sequence[tuple[Record, int]]) -> None:
        """Tell everybody, once all states are consistent; whoever's callback fails is cancelled."""
        for record, token in delivered:
            if record.on_token is None or record.state is State.CANCELLED:
                continue
            try:
                record.on_token(record.request.id, token)
            except Exception as error:  # a user's code; the others must not suffer
                if self.cancel(record.request.id):
                    record.reason = f"its callback raised {error!r}"
