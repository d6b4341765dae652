"""What the run is about: the model and machine that claims are tested on, as plain data handed over by a hook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from reports.subject_key import format_suffix


@dataclass(frozen=True)
class Subject:
    """What this run can measure (`abilities`, a subset of the ledger's needs) and on which model."""

    abilities: frozenset[str]
    model: Mapping[str, Any] | None = None

    @property
    def slug(self) -> str | None:
        """The key of this model in `on_record` tables; in another format than fp32 it is another subject."""
        return None if self.model is None else str(self.model["slug"]) + format_suffix(self.model)

    @property
    def usual_format(self) -> bool:
        """Whether records that name no model apply: what needs none, and models in fp32."""
        return self.model is None or not format_suffix(self.model)

    @property
    def device(self) -> str | None:
        """The device class, cpu or cuda."""
        return None if self.model is None else str(self.model["device"])

    @property
    def is_chapter(self) -> bool:
        """Whether these are exactly the weights that the chapter measured."""
        return "chapter" in self.abilities


NOTHING = Subject(abilities=frozenset())


class SubjectHooks:
    """The hook by which the fixtures tell the reports what is being tested."""

    @pytest.hookspec(firstresult=True)
    def pytest_claim_subject(self, config: pytest.Config, needs: frozenset[str]) -> Subject | None:
        """Describe the model and the machine of this run; called when a claim with these needs is about to run."""
