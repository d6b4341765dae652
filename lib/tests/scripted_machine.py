"""A machine made of numbers: actions take the seconds that a script says, and no real time passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lib.timing.rounds import Rounds

WARM_UP = 2  # per action; not the default, so that a test that forgets it is seen
Script = Callable[[int], float]
Action = Callable[[], object]


class ScriptedMachine:
    """now: its clock. waiting: seconds its threads queued so far, None where nobody counts. log: what ran, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: float | None = 0.0
        self.log: list[str] = []

    def action(self, name: str, seconds: Script, share: Script = lambda _: 0.0) -> Action:
        """Takes seconds(i) at its i-th call (from 0), of which its one thread waits a share."""

        def run() -> None:
            call = self.log.count(name)
            self.log.append(name)
            self.now += seconds(call)
            if self.waiting is not None:
                self.waiting += share(call) * seconds(call)

        return run

    def seconds(self, action: Action) -> float:
        """As a clock of lib.timing.clock."""
        started = self.now
        action()
        return self.now - started

    def rounds(self, actions: Mapping[str, Action], reference: Action | None = None, **more: Any) -> Rounds:
        """Rounds of one thread on this machine; a reference of one second unless another is given."""
        reference = reference or self.action("reference", lambda _: 1.0)
        options = {
            "threads": 1,
            "warm_up": WARM_UP,
            "waited": lambda: self.waiting,
            "now": lambda: self.now,
            "probes": 0,
            **more,
        }
        return Rounds(actions, self, reference, **options)


def never() -> bool:
    return False


def outside_by(rounds: Rounds, line: float, name: str = "a", over: str = "b") -> Callable[[], bool]:
    """Decided: the whole interval lies on one side of the line."""
    return lambda: not rounds.ratio(name, over).contains(line)
