"""Plugins of others that this session has no use for, before they cost time."""

from __future__ import annotations

import sys

import pytest

HYPOTHESIS = "hypothesispytest"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let Hypothesis' plugin go where no test used it: its summary imports the whole library to say nothing.

    Under xdist it stays: tests used it in the workers, and their failing examples are written here.
    """
    manager = session.config.pluginmanager
    if "hypothesis" not in sys.modules and not manager.hasplugin("dsession") and manager.hasplugin(HYPOTHESIS):
        manager.unregister(name=HYPOTHESIS)
