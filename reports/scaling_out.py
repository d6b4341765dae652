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
SPREADING = frozenset({"load", "worksteal"})
_PLACES = frozenset({"--tx", "--px", "--rsyncdir"})
ONE_EACH = (
    "--dist each measures every claim once per worker, and one evidence folder holds it once: run each environment by "
    "itself with --evidence DIR, and put them together with python -m reports merge"
)


def section_scheduler(config: pytest.Config, log: Any, is_claim: Callable[[str], bool]) -> Any:
    """`--dist loadgroup` for claims: a section is a group; other tests are grouped by their xdist_group marks."""
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]  # late: xdist may be switched off

    class SectionScheduling(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0] if is_claim(nodeid) else str(super()._split_scope(nodeid))

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
        option, _, value = word.partition("=")
        if before in _PLACES:
            said.append(f"{word.partition('//')[0].partition('=')[0]}…")
        else:
            said.append(f"{option}={value.partition('//')[0].partition('=')[0]}…" if option in _PLACES else word)
    return said
