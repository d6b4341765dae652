"""How far the two policies can lie apart when all requests arrive at once and every step costs the same.

Units are steps. Static batching in a given order takes the sum of its groups' longest; continuous batching is list
scheduling (Graham, 1969), which keeps every slot busy until the queue is empty. The bounds hold for every order.
"""

from __future__ import annotations

from collections.abc import Sequence


def longest_of_groups(output_tokens: Sequence[int], slots: int) -> list[int]:
    """The longest request of each consecutive group: how many steps static batching gives that group."""
    return [max(output_tokens[i : i + slots]) for i in range(0, len(output_tokens), slots)]


def most_static_steps(output_tokens: Sequence[int], slots: int) -> int:
    """The most steps static batching can need, in any order: the longest requests all in groups of their own."""
    groups = -(-len(output_tokens) // slots)
    return sum(sorted(output_tokens, reverse=True)[:groups])


def fewest_static_steps(output_tokens: Sequence[int], slots: int) -> int:
    """The fewest, in any order: like with like, so that only every slots-th longest counts."""
    return sum(sorted(output_tokens, reverse=True)[::slots])


def most_continuous_steps(total: int, longest: int, slots: int) -> float:
    """The most steps list scheduling can need: the longest starts last, when all slots have been busy until then."""
    return (total - longest) / slots + longest


def most_service_ratio(requests: int, total: int, longest: int) -> float:
    """The largest ratio of mean time from admission to answer, whatever the order, the arrivals and the slots.

    Nobody stays longer than `longest` steps in a group, and under continuous batching a request stays its own steps.
    """
    return longest * requests / total


def most_service_ratio_at(throughput_ratio: float, total: int, longest: int, slots: int) -> float:
    """The same for full groups that all arrive at once, when the throughput ratio is known; any cost of a step.

    Everybody in a group stays as long as it does: the mean is (static time) · slots / requests. Under continuous
    batching the mean is (sum over steps of cost · active) / requests, and continuous time the sum of the costs. So
    their ratio is the throughput ratio times slots over the time-weighted mean of active slots. Where a step costs no
    less the more slots are active, that mean is at least the plain one, total / (continuous steps): Chebyshev's sum
    inequality.
    """
    return throughput_ratio * most_continuous_steps(total, longest, slots) * slots / total


def least_mean_completion(output_tokens: Sequence[int], slots: int) -> float:
    """No order and no policy has a smaller mean time to the answer (Eastman, Even, Isaacs, 1964).

    One machine serving shortest first, divided among the slots, plus (slots - 1) / (2 slots) of all the work.
    """
    n = len(output_tokens)
    alone = sum((n - place) * tokens for place, tokens in enumerate(sorted(output_tokens)))
    return (alone / slots + (slots - 1) / (2 * slots) * sum(output_tokens)) / n
