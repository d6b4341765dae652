"""Where a decode step turns from memory-bound to compute-bound, read off two of its times.

Times are in any one unit, here steps of a single request; requests are counted. Both readings of a roofline: memory and
arithmetic perfectly overlapped (a step takes the longer of the two), or one after the other (it takes their sum).
"""

from __future__ import annotations

from lib.intervals import Estimate, Number

Point = tuple[int, Estimate]


def turn_if_overlapped(compute_bound_at: int, time_there: Estimate, time_of_one: Number = 1) -> Estimate:
    """At how many requests arithmetic takes as long as everything else, if it is all of the step at a given batch.

    Arithmetic is proportional to requests, so it fills time_there / compute_bound_at per request; a single
    request's step is at least the memory part. Products of fewer rows being slower would only lower the result.
    """
    return time_of_one * compute_bound_at / time_there


def turn_if_in_turn(fewer: Point, more: Point) -> Estimate:
    """The same if reading and computing alternate: a straight line through two points, fixed part over slope."""
    (few, few_time), (many, many_time) = fewer, more
    slope = (many_time - few_time) / (many - few)
    return (few_time - few * slope) / slope
