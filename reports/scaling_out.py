"""Claims on several workers (pytest-xdist): which may run where, and what each worker says of itself.

A section's claims share tables that are measured once per process, so the unit of work is a section's file. xdist's
own `loadgroup` cannot be told so: it reads groups off node ids that it rewrites in the workers, and pytest 9.2 no
longer lets it (pytest-xdist#1386). The scheduler here reads the section off the node id as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

GROUPED = "loadfile"  # what `-n` and `--tx` mean here where no --dist is given
BY_SECTION = frozenset({"loadfile", "loadgroup"})
SPREADING = frozenset({"load", "worksteal"})
_PLACES = frozenset({"--tx", "--px", "--rsyncdir"})
ONE_EACH = (
    "--dist each measures every claim once per worker, and one evidence folder holds it once: run each environment by "
    "itself with --evidence DIR, and put them together with python -m reports merge"
)


def section_scheduler(config: pytest.Config, log: Any, is_claim: Callable[[str], bool]) -> Any:
    """Hands whole sections to workers; other tests go by their xdist_group marks, as under xdist's own `loadgroup`."""
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]  # late: xdist may be switched off

    class SectionScheduling(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            by_file = is_claim(nodeid) or config.getoption("dist") == "loadfile"
            return nodeid.partition("::")[0] if by_file else str(super()._split_scope(nodeid))

        def remove_node(self, node: Any) -> str | None:
            """A claim that killed its worker is done with: xdist would hand it on until every worker is dead."""
            units = self.assigned_work[node].values()
            pending = [(unit, nodeid) for unit in units for nodeid, done in unit.items() if not done]
            for unit, nodeid in pending[:1]:
                unit[nodeid] = True
            super().remove_node(node)
            return pending[0][1] if pending else None

    return SectionScheduling(config, log)


def choose_distribution(config: pytest.Config) -> None:
    """Workers without --dist keep a file together; without this, xdist would ignore --tx in silence.

    A worker gets the controller's command line, --tx too, and must not have workers of its own.
    """
    if hasattr(config, "workerinput"):
        return
    asked = config.getoption("numprocesses", None) or config.getoption("tx", None)
    if asked and config.getoption("dist", "no") == "no":
        config.option.dist = GROUPED


def distribution(config: pytest.Config) -> str:
    """How tests are handed to workers; "no" where there are none, and inside a worker."""
    there = bool(config.getoption("tx", None)) and not config.option.collectonly
    return str(config.getoption("dist", "no")) if there else "no"


def header(config: pytest.Config) -> list[str]:
    """A line where the choice makes claims measure their tables more than once."""
    mode = distribution(config)
    line = (
        f"claims: --dist {mode} spreads a section over workers, and each measures its tables anew (loadgroup does not)"
    )
    return [line] if mode in SPREADING else []


def worker_of(event: Any) -> str:
    """The id of the worker that a report came from; empty without workers."""
    gateway = getattr(getattr(event, "node", None), "gateway", None)
    return str(getattr(gateway, "id", ""))


def without_hosts(arguments: Sequence[str]) -> list[str]:
    """A command line as it may be recorded: where workers run says who and where somebody is."""
    said = []
    for before, word in zip(["", *arguments], arguments, strict=False):
        option, equals, value = word.partition("=")
        if before in _PLACES:
            said.append(_kind(word))
        else:
            said.append(f"{option}={_kind(value)}" if option in _PLACES and equals else word)
    return said


def _kind(place: str) -> str:
    """What sort of place an execnet specification names, popen or ssh."""
    return f"{place.partition('//')[0].partition('=')[0]}…"
