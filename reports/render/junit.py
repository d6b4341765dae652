"""`junit.xml` from evidence: a suite for each subject, a case for each claim.

An erratum as recorded passes, as it does in pytest: nothing has changed since we last looked. What has changed, has no
record, is damaged or drifted fails or is an error; what could not be decided or compared is skipped, with its reason.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from reports.render import sentences
from reports.render.model import CAUTIONS, Claim
from reports.render.page_model import Page, Problem
from reports.render.words import Words

# What XML 1.0 cannot hold, even escaped.
_NOT_XML = re.compile(r"[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(page: Page, w: Words) -> str:
    """The document as text; well-formed whatever the evidence contains."""
    root = Xml.Element("testsuites", name="chapter")
    for subject in page.subjects:
        cases = [c for c in page.claims if c.subject == subject.key]
        suite = Xml.SubElement(root, "testsuite", name=_clean(subject.key or "claims"))
        for claim in cases:
            _case(suite, claim, w)
        _count(suite)
    if page.problems:
        _problems(root, page.problems, w)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _case(suite: Xml.Element, claim: Claim, w: Words) -> None:
    seconds = f"{claim.seconds or 0:.3f}"
    case = Xml.SubElement(suite, "testcase", classname=_clean(claim.section), name=_clean(claim.id), time=seconds)
    kind, why = _result(claim, w)
    if kind:
        Xml.SubElement(case, kind, message=_clean(why))
    elif claim.failing:
        Xml.SubElement(case, "system-out").text = _clean(sentences.erratum(claim, w))


def _result(claim: Claim, w: Words) -> tuple[str, str]:
    """The element that says how a case went, none for one that passed; and why."""
    if claim.category == "error":
        return "error", sentences.why_not(claim, w)
    if claim.category == "missing":
        return "failure", sentences.why_not(claim, w)
    if claim.outcome == "changed":
        return "failure", f"{w.name('verdict', claim.category)}; {sentences.record_line(claim, w)}"
    if claim.is_flagged:
        return "failure", sentences.drift_line(claim, w)
    if claim.outcome != "as-recorded":
        return "skipped", ": ".join(filter(None, [sentences.record_line(claim, w), sentences.why_not(claim, w)]))
    doubtful = claim.drift is not None and claim.drift.status in CAUTIONS
    return ("skipped", sentences.drift_line(claim, w)) if doubtful else ("", "")


def _problems(root: Xml.Element, problems: tuple[Problem, ...], w: Words) -> None:
    suite = Xml.SubElement(root, "testsuite", name="merge")
    for problem in problems:
        name = " ".join(filter(None, [problem.kind, problem.claim, problem.subject]))
        case = Xml.SubElement(suite, "testcase", classname="merge", name=_clean(name), time="0.000")
        kind = "skipped" if problem.harmless else "failure"
        Xml.SubElement(case, kind, message=_clean(f"{w.name('problem', problem.kind)} {problem.detail}"))
    _count(suite)


def _count(suite: Xml.Element) -> None:
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for _ in suite.iter(tag))))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
