"""Faults to plant under the serving claims: schedulers, caches and engines that do not do what their name says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reports.plants import Real

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from lib.contiguous_arena import Arena
    from lib.paged_cache.storage import PagedStorage, Slots
    from lib.scheduling.latency import Latency
    from lib.scheduling.policies import Policy
    from lib.scheduling.times import Times


def refilled(_static: Real) -> Real:
    """Static batching that fills a slot as soon as it is free."""
    from lib.scheduling.many import simulate_continuous

    def wrong(work: Any, cost: Any, slots: int, **_padding: Any) -> Times:
        return simulate_continuous(work, cost, slots)

    return wrong


def exchanged(real: Real) -> Real:
    """The two arguments are taken for one another."""
    return lambda first, second: real(second, first)


def one_by_one(policy: Policy) -> Policy:
    """Whoever is done leaves at once, and does not wait for its group."""
    return replace(policy, released_together=False)


def as_a_group(policy: Policy) -> Policy:
    """Whoever is done waits for the longest."""
    return replace(policy, released_together=True)


def first_as_last(definitions: Mapping[str, Latency]) -> Mapping[str, Latency]:
    """A request's first token counts as heard when its last one is."""
    from lib.scheduling.latency import Moment

    return {name: replace(latency, end=Moment.LAST) for name, latency in definitions.items()}


def one_token_more(at_once: Real) -> Real:
    """Every request runs a step longer than it has tokens."""
    return lambda lengths: at_once([length + 1 for length in lengths])


def twice_the_room(arena: type[Arena]) -> Callable[[int], Arena]:
    """A memory that believes to be twice as large as it is."""
    return lambda capacity: arena(2 * capacity)


def a_block_ahead(in_blocks: Real) -> Real:
    """A sequence holds one block more than it needs."""

    def wrong(size: int) -> Real:
        scheme = in_blocks(size)
        return lambda request, held: scheme(request, held) + size

    return wrong


def in_memory_order(read: Real) -> Real:
    """Slots are read in the order in which they lie in memory, not in the table's."""

    def wrong(self: PagedStorage, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        import torch

        pair: tuple[Tensor, Tensor] = read(self, layer, torch.as_tensor(slots).sort().values)
        return pair

    return wrong


def stored_in(number_format: str) -> Callable[[Real], Real]:
    """Keys and values are rounded to a narrower format on their way into the cache."""

    def plant(write: Real) -> Real:
        def wrong(self: PagedStorage, layer: int, slots: Slots, keys: Tensor, values: Tensor) -> None:
            import torch

            narrow: torch.dtype = getattr(torch, number_format)
            write(self, layer, slots, keys.to(narrow).to(keys.dtype), values.to(narrow).to(values.dtype))

        return wrong

    return plant


def without_its_first_block(child: Real) -> Real:
    """A prefix is looked up from its second block on: whatever the first one is, it counts as found."""

    def wrong(self: Any, parent: Any, tokens: tuple[int, ...]) -> Any:
        if parent is self.root:
            known = [node for bucket in self._nodes.values() for node in bucket if node.parent is self.root]
            return next(iter(known), None)
        return child(self, parent, tokens)

    return wrong


def blind_to_itself(mask: Real) -> Real:
    """A decoded token does not attend to its own key."""

    def wrong(self: Any, groups: int) -> Tensor | None:
        import torch

        real: Tensor | None = mask(self, groups)
        if real is not None:
            return real
        seen = torch.ones(groups, len(self.slots), dtype=torch.bool, device=self.slots.device)
        seen[:, -1] = len(self.slots) == 1
        return seen

    return wrong
