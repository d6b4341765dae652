"""A merged folder's document (`merged.json`) as a `Page`: several subjects, and what merging could not put right.

The document: {"schema": 1, "subjects": {key: {"model", "machine", "runs"}}, "claims": {id: {key: record}},
"problems": [{"kind", "id", "subject", "detail"}]}. Nothing here raises on content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reports.render.model import Claim, Note
from reports.render.page_model import Page, Problem, Subject
from reports.render.reading import claim, items, mapping, missing, model, text

GAP = "gap"  # the kind of problem that is a row of its own: collected, and without a record


def merged_page(document: Mapping[str, object]) -> Page:
    """The page of a merged document; parts of the wrong type become warnings, and unheard-of subjects columns."""
    expected = {"subjects": Mapping, "claims": Mapping, "problems": list}
    bad: list[Note] = [("malformed", key) for key, kind in expected.items() if not isinstance(document.get(key), kind)]
    subjects = {text(key): _subject(text(key), raw) for key, raw in mapping(document.get("subjects")).items()}
    claims = _claims(mapping(document.get("claims")))
    problems = tuple(map(_problem, items(document.get("problems"))))
    claims += _gaps(problems, {(c.id, c.subject) for c in claims})
    for found in claims:
        subjects.setdefault(found.subject, Subject(found.subject))
    complete = not any(run.get("interrupted") for subject in subjects.values() for run in subject.runs)
    shown = tuple(subjects.values()) or (Subject(""),)
    return Page(tuple(claims), shown, complete, tuple(bad), problems)


def _subject(key: str, raw: object) -> Subject:
    given = mapping(raw)
    machine = given.get("machine")
    named = mapping(machine).get("class") if isinstance(machine, dict) else machine
    runs = tuple(dict(mapping(run)) for run in items(given.get("runs")))
    return Subject(key, model(given.get("model")), text(named), runs)


def _claims(raw: Mapping[str, object]) -> list[Claim]:
    found = []
    for claim_id, cells in raw.items():
        if not isinstance(cells, dict):
            found.append(claim(str(claim_id), cells))  # no object: a red row
        for key, record in mapping(cells).items():
            found.append(replace(claim(str(claim_id), record), subject=text(key)))
    return found


def _problem(raw: object) -> Problem:
    if not isinstance(raw, dict):
        return Problem("damaged", "", "", text(raw))
    kind, claim_id, subject, detail = (text(raw.get(key)) for key in ("kind", "id", "subject", "detail"))
    return Problem(kind or "damaged", claim_id, subject, detail)


def _gaps(problems: tuple[Problem, ...], known: set[tuple[str, str]]) -> list[Claim]:
    """A row for each gap that names a claim and has no record after all."""
    wanted = {(p.claim, p.subject): p.detail for p in problems if p.kind == GAP and p.claim}
    return [missing(key, why, subject) for (key, subject), why in wanted.items() if (key, subject) not in known]
