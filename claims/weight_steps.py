"""Decode steps with weights in several formats, timed in turn: what weights.fewer-bytes-faster is settled by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from claims.timed import over_first
from lib.intervals import Estimate
from reports.claim import Claim

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from fixtures.timing import Timings
    from lib.timing.rounds import Rounds

CACHED = 64  # tokens, as in the chapter's batch table
WIDEST, BOTH_SIDES = "fp32", "int8 times int8"  # the latter quantizes activations too: shown for comparison only
# With kernels that read the codes as they are stored; 16 bits are hardly codes.
READ_AS_STORED = ("int8", "int4")
LADDER_OF_BITS = (("fp32", "bf16"), ("bf16", "int8"), ("int8", "int4"), ("bf16", "int4, dequantized first"))
Ratios = Mapping[str, Estimate]


@dataclass(frozen=True)
class WeightSteps:
    """rounds: of steps, by format. held: bytes of weights, codes and scales that a step reads, by format."""

    rounds: Rounds
    held: Mapping[str, int]

    @property
    def figures(self) -> dict[str, Callable[[], Ratios | Estimate]]:
        """What is judged. The reason given, that fewer bytes are moved, is tried where it must show most.

        With int8 the answer depends on the hour, since it comes the nearer to its bytes the less memory bandwidth the
        other guests of a host leave; it is shown.
        """
        judged: dict[str, Callable[[], Ratios | Estimate]] = {
            "step_over_fp32": lambda: over_first(self.rounds, WIDEST, self._narrower),
            "step_over_wider": lambda: {
                f"{wide} to {name}": self.rounds.ratio(name, over=wide)
                for wide, name in LADDER_OF_BITS
                if name in self.held
            },
        }
        if (narrowest := self.narrowest) is not None:
            judged["time_over_bytes"] = lambda: self.over_bytes(narrowest)
        return judged

    @property
    def narrowest(self) -> str | None:
        """The format of the fewest bits that a kernel reads as stored; None where torch has none for this model."""
        return next((name for name in reversed(READ_AS_STORED) if name in self.held), None)

    def over_bytes(self, name: str) -> Estimate:
        """How many times as long a step takes as it would if time fell as the bytes do, both relative to fp32."""
        return self.rounds.ratio(name, over=WIDEST) * (self.held[WIDEST] / self.held[name])

    def show(self, claim: Claim, read_limit: float) -> None:
        """Milliseconds, bytes, and how much of the machine's bandwidth (bytes per second) each format uses."""
        if self.narrowest is None:
            claim.not_measured(
                "time_over_bytes", "torch has no kernel for this model that reads narrow codes as stored"
            )
        claim.measured("time_over_bytes_by_format", {name: self.over_bytes(name) for name in self._narrower}, "1")
        claim.measured("step_ms", {name: self.rounds.seconds(name) * 1000 for name in self.held}, "ms")
        claim.measured("bytes_over_fp32", {name: size / self.held[WIDEST] for name, size in self.held.items()}, "1")
        shares = {name: self.rounds.rate(name, size / read_limit) for name, size in self.held.items()}
        claim.measured("share_of_read_limit", shares, "1")
        claim.protocol(**self.rounds.facts(), context=CACHED, batch=1)

    @property
    def _narrower(self) -> list[str]:
        return [name for name in self.held if name not in {WIDEST, BOTH_SIDES}]


def weight_steps(model: PreTrainedModel, timings: Timings) -> WeightSteps:
    """Copies of the model in every format, nothing timed yet."""
    from lib.low_bit_linear import step_bytes, weight_formats
    from lib.step_actions import decode_action

    copies = weight_formats(model)
    rounds = timings.rounds({name: decode_action(copied, CACHED) for name, copied in copies.items()})
    return WeightSteps(rounds, {name: step_bytes(copied) for name, copied in copies.items()})
