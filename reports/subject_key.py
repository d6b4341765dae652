"""Subject: what was measured on what, as a name that can be a folder: `<model>[-<dtype>]@<machine class>`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from reports.names import is_device

NO_MODEL, UNKNOWN_MACHINE = "no-model", "unknown"
USUAL_DTYPE = "float32"
_LONGEST = 100  # characters of either half: together a folder name on every system
_FOREIGN = re.compile(r"[^a-z0-9._-]+")


def subject_key(model: Mapping[str, Any] | None, machine: str | None) -> str:
    """The column of a model on a machine class. Both may come from outside: the key never has a path in it."""
    return f"{model_name(model)}@{machine_name(machine)}"


def model_name(model: Mapping[str, Any] | None) -> str:
    """The model's half of the key."""
    if model is None or not isinstance(model.get("slug"), str):
        return NO_MODEL
    return _plain(model["slug"] + format_suffix(model))


def format_suffix(model: Mapping[str, Any]) -> str:
    """What the number format adds to a model's name: nothing for the usual one."""
    dtype = str(model.get("dtype") or USUAL_DTYPE).removeprefix("torch.")
    return f"-{dtype}" * (dtype != USUAL_DTYPE)


def machine_name(machine: str | None) -> str:
    """The machine's half of the key."""
    return _plain(machine or UNKNOWN_MACHINE)


def machine_of(subject: str) -> str:
    """The machine's half of a key; a model's half has no @."""
    return subject.partition("@")[2]


def machine_class(machine: object) -> str | None:
    """The class in a run's machine facts, None where they say nothing."""
    found = machine.get("class") if isinstance(machine, Mapping) else None
    return found if isinstance(found, str) and found else None


def _plain(name: str) -> str:
    """The name itself if it is tame; else what is tame of it and a digest, so that two of them stay two."""
    tame = _FOREIGN.sub("-", name.lower()).strip(".-")[:_LONGEST]
    if tame and tame == name and not is_device(name):
        return tame
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{'_' * is_device(tame)}{tame}-{digest}".lstrip("-")
