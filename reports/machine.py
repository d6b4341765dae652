"""Which machine measured: enough to tell like from unlike, and nothing that names a host, a user or a path."""

from __future__ import annotations

import ctypes.util
import platform
import re
import sys
from pathlib import Path
from typing import Any

import psutil

_CPU_INFO = Path("/proc/cpuinfo")
# From wide to narrow: the widest decides which kernels a matmul runs on, and so the last bits of its sums.
_ISAS = (("amx_tile", "amx"), ("avx512f", "avx512"), ("avx2", "avx2"), ("asimd", "neon"))
_NOISE = re.compile(r"\((?:r|tm|c)\)|cpu|processor|@.*", re.IGNORECASE)


def machine_facts() -> dict[str, Any]:
    """`class` (what baselines are kept by), `cpu`, `isa`, `cores` and `gpu` (None where torch sees none)."""
    described = _cpu_info()
    name, flags = described.get("model name") or platform.processor() or "", described.get("flags", "")
    isa = next((short for flag, short in _ISAS if flag in flags.split()), "")
    facts = {"cpu": " ".join(name.split()), "isa": isa, "cores": cores(), "gpu": _gpu()}
    return {"class": machine_class(facts), **facts}


def cores() -> int | None:
    """How many cores this process may use."""
    return len(psutil.Process().cpu_affinity() or ()) if psutil.LINUX else psutil.cpu_count()


def machine_class(facts: dict[str, Any]) -> str:
    """A name for machines whose timings may be compared: architecture, CPU model, widest instructions, cores, GPU."""
    parts = [platform.machine(), _NOISE.sub("", facts["cpu"]), facts["isa"], f"{facts['cores']}c", facts["gpu"] or ""]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def _cpu_info() -> dict[str, str]:
    """The first core's lines of the kernel's description; empty elsewhere than on Linux."""
    try:
        first = _CPU_INFO.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    named = {name.strip(): value.strip() for name, _, value in pairs}
    return named | {"flags": named.get("flags") or named.get("Features", "")}


def _gpu() -> str | None:
    """The first GPU's name. Torch, which knows it, is loaded only where a driver is installed.

    Always there, so that a class does not change when the first claim loads torch, nor between xdist's processes.
    """
    if "torch" not in sys.modules and not any(ctypes.util.find_library(name) for name in ("cuda", "nvcuda")):
        return None
    import torch

    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None
