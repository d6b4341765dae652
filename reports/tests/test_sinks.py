"""Words from outside where they could become something else: Markdown, XML, a script, a terminal, a CI job's log."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from markdown_it import MarkdownIt

from reports.__main__ import main
from reports.commands import say
from reports.render import write_all
from reports.render.badge import render_badge
from reports.render.errata_list import _told
from reports.render.markdown import escape, render_markdown
from reports.render.reading import MAX_TEXT, claim, text
from reports.render.reading import page as read_page
from reports.render.words import Words
from reports.screen import inert
from reports.terminal import summary_lines
from reports.tests.drift_samples import evidence
from reports.tests.samples import aspect, entry, everything, failed, not_measured, refuted, summary

EN = Words("en")
MARKDOWN = [
    "[a](javascript:alert(1))", "![x](https://x.example/p.png)", "<https://x.example>", "<b>x</b>", "<!-- x",
    "a | b | c", "`x", "``", "x` [a](b) `y", "@somebody", "#12 GH-12", "\n# head\n", "\n- item", "\n\n| a |\n|---|",
    "**b** _i_ ~~s~~", "$x$ $$y$$", "[a]: https://x.example", "[^1]", "\\[a](b)", "\\`x", "&lt;b&gt; &#64;x",
    "\u2028# head", "\r# head", "\x0b# head", "\x85# head", "</details><details>", ":tada:", "[ ](x) ]( ", "\t# head",
    "<script>", "]]>", "\ufffe\uffff\x00", "- a", "1. a", "    code", "===", "> a", "~~~", "|",
]  # fmt: skip
MARKUP = {"link_open", "image", "html_inline", "html_block", "s_open", "fence", "code_block", "hr", "blockquote_open"}


@cache
def kinds(markdown: str) -> tuple[str, ...]:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    return tuple(t.type for token in tokens for t in (token, *(token.children or [])))


@cache
def told(words: str) -> str:
    """A page on which a statement says this wherever it can."""
    fields = dict.fromkeys(("says", "says_id", "where", "reason", "erratum", "erratum_id", "condition"), words)
    wrong = aspect("REFUTED", measured=words, reason=words, unit=words)
    claims = {
        "a.a": refuted(aspects={words: wrong}, **fields), words: refuted(**fields), "b.b": failed(words),
        "c.c": not_measured(words, section=words), "d.d": entry(notes=[words], protocol={words: words}),
        "e.e": refuted(outcome="changed", on_record="HOLDS", **fields),
    }  # fmt: skip
    run = {"started": words, "commit": words, "python": words, "command": words, "machine": {"class": words}}
    page = read_page(summary(claims, run=run, model={"name": words, "note": words, "slug": words, "digest": words}))
    from reports.render.job_summary import render_job_summary

    return render_markdown(page, EN) + "\n\n" + render_job_summary(page, EN)


@pytest.mark.parametrize("words", MARKDOWN, ids=ascii)
def test_markdown_gets_no_markup_from_a_record(words: str) -> None:
    plain, found = kinds(told("plain")), kinds(told(words))
    for kind in sorted({*MARKUP, "heading_open", "list_item_open", "table_open", "th_open", "td_open", "tr_open"}):
        assert found.count(kind) == plain.count(kind), kind
    visible = re.sub(r"`[^`\n]*`", "", told(words))
    assert "@somebody" not in visible and "<" not in re.sub(r"^> ", "", visible, flags=re.MULTILINE)


def test_unescaped_words_would_fail_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant."""
    monkeypatch.setattr("reports.render.markdown.escape", lambda text: text)
    plain = kinds(told.__wrapped__("plain"))
    found = [kinds(told.__wrapped__(words)) for words in MARKDOWN]
    seen = [f for f in found if any(f.count(k) != plain.count(k) for k in (*MARKUP, "heading_open", "td_open"))]
    assert len(seen) > len(MARKDOWN) // 3


@pytest.mark.parametrize("words", [w for w in MARKDOWN if "\n" not in w and "\r" not in w], ids=ascii)
def test_the_list_of_errata_gets_none_either(words: str) -> None:
    from reports.ledger import Statement
    from reports.verdict import Verdict

    def lines(says: str) -> str:
        given = dict.fromkeys(("says", "says_id", "where", "erratum", "erratum_id"), text(says))
        raw = claim("a.a", refuted(aspects={}, **given))
        printed = (text(says), text(says), text(says))
        statement = Statement("a.a", *printed, "exact", (), {}, on_record={"default": Verdict.REFUTED})
        return "\n".join(_told(raw, statement, EN))

    plain, found = kinds(lines("plain")), kinds(lines(words))
    for kind in (*MARKUP, "heading_open", "list_item_open", "blockquote_open", "td_open"):
        assert found.count(kind) == plain.count(kind), kind


def test_plain_words_pass_as_they_are() -> None:
    shown = MarkdownIt("commonmark").render(escape("a_b*c [d](e) <f> & @g #1 `h` | i"))
    assert html.unescape(re.sub("<.*?>", "", shown)).strip() == "a_b*c [d](e) <f> & @g #1 `h` | i"


CONTROL = "".join(map(chr, [*range(32), 0x7F, 0x85, 0x9F, 0x2028, 0x2029, 0xFFFE, 0xFFFF, 0xD800, 0x1FFFE]))


def test_xml_has_no_character_that_xml_cannot_have(tmp_path: Path) -> None:
    nasty = f"]]><!--{CONTROL}--><x/>&amp;\"'"
    claims = {f"a.{nasty}": refuted(erratum=nasty), "b.b": failed(nasty), "c.c": not_measured(nasty)}
    write_all(read_page(summary(claims, model={"name": nasty, "slug": nasty})), tmp_path, "en")
    for name in ("junit.xml", "badge.svg"):
        content = (tmp_path / name).read_text(encoding="utf-8")
        root = Xml.fromstring(content)  # noqa: S314
        assert "x" not in {node.tag for node in root.iter()}
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", content)


def test_a_badge_has_no_script_no_link_and_no_words_from_a_record() -> None:
    hostile = "<script>alert(1)</script>"
    svg = render_badge(read_page(summary({hostile: refuted(erratum=hostile), "b.b": failed(hostile)})), EN)
    found = {node.tag.rpartition("}")[2] for node in Xml.fromstring(svg).iter()}  # noqa: S314
    assert found == {"svg", "title", "rect", "path", "g", "text"}
    assert "script" not in svg and not re.search(r"href|onload|style=|url\(", svg)


@pytest.mark.parametrize("words", ["</script>", "<!--", "<!--<script>", "]]>", "\u2028\u2029", "'\"\\u003c"], ids=ascii)
def test_what_the_page_packs_cannot_end_its_script(words: str, tmp_path: Path) -> None:
    claims = {key: value | {"says": words, "reason": words, "notes": [words]} for key, value in everything().items()}
    write_all(read_page(summary(claims)), tmp_path, "en")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    held = page.split('id="packs">', 1)[1].split("</script>", 1)[0]
    json.loads(held)
    assert re.fullmatch(r'[A-Za-z0-9+/=_.,:"{}\[\] \n-]+', held)
    assert page.count("<script") == 2 and "<!--" not in page and not set(page) & {"\u2028\u2029"}


COMMANDS = [
    "::error::x",
    "::set-output name=a::b",
    "  ::add-mask::x",
    "\t::stop-commands::x",
    "##[error]x",
    "::group::",
]


@pytest.mark.parametrize("line", COMMANDS)
def test_no_line_of_ours_is_a_command_to_githubs_runner(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(line)
    out = capsys.readouterr().out
    assert line.strip() in out and not out.lstrip().startswith(("::", "##["))
    claims = {line: refuted(erratum=line, reason=line), f"a.{line}": failed(line), "b.b": not_measured(line)}
    said = [shown for shown, _ in summary_lines(summary(claims), 80)]
    assert any(line.strip() in shown for shown in said)
    assert not [shown for shown in said if shown.lstrip().startswith(("::", "##["))]


def test_without_that_a_record_could_speak_to_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant; and what is no command is left as it is."""
    assert inert("a ::error:: b") == "a ::error:: b" and inert("") == ""
    monkeypatch.setattr("reports.terminal.inert", lambda line: line)
    said = summary_lines(summary({"a.a": refuted(erratum="::error::x")}), 80)
    assert [line for line, _ in said if line.lstrip().startswith("::")]


def test_the_nights_of_a_store_say_nothing_to_the_runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    night = {
        "schema": 1,
        "night": "2025-12-01T00:00:00",
        "subject": "::error::\x1b[2J",
        "claims": {"a.a": {"v": "::x"}},
    }
    (tmp_path / "20251201T000000Z-x.json").write_text(json.dumps(night), encoding="utf-8")
    main(["history", "--store", str(tmp_path), "--claim", "a.a"])
    lines = capsys.readouterr().out.splitlines()
    assert lines and not [line for line in lines if line.lstrip().startswith("::") or not line.isprintable()]


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "field", ["says", "says_id", "where", "reason", "error", "erratum", "erratum_id", "condition", "test"]
)
def test_a_text_of_a_megabyte_is_cut_and_says_so(field: str, tmp_path: Path) -> None:
    write_all(read_page(summary({"a.a": refuted(**{field: LONG})})), tmp_path, "en")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert max(sizes.values()) < 40 * MAX_TEXT, sizes
    assert text(LONG).endswith("x […+980,000]") and text("x" * MAX_TEXT) == "x" * MAX_TEXT


def other_long_words() -> dict[str, dict[str, Any]]:
    return {
        "a note": entry(notes=[LONG]), "a setting": entry(protocol={"a": LONG}), "a need": entry(needs=[LONG]),
        "a figure": entry(aspects={"a": aspect(measured=LONG, reason=LONG, unit=LONG)}),
        "a figure's name": entry(aspects={LONG: aspect()}), "a setting's name": entry(protocol={LONG: 1}),
        "a case": entry(aspects={"a": aspect(measured={LONG: 1, "b": LONG})}),
        "a printed figure": entry(aspects={"a": aspect(published={"value": LONG, "unit": LONG, "why": LONG})}),
    }  # fmt: skip


@pytest.mark.parametrize("where", other_long_words())
def test_no_other_text_makes_a_page_of_megabytes(where: str, tmp_path: Path) -> None:
    write_all(read_page(summary({"a.a": other_long_words()[where]})), tmp_path, "en")
    assert max(path.stat().st_size for path in tmp_path.iterdir()) < 40 * MAX_TEXT


def test_a_summary_for_a_job_is_appended_whole_lines(tmp_path: Path) -> None:
    """GITHUB_STEP_SUMMARY takes what `build` wrote: it ends with a line end, and holds nothing that breaks the next."""
    folder = evidence(tmp_path / "e", {"a.a": entry() | {"id": "a.a", "section": "a"}})
    main(["build", "--evidence", str(folder), "--out", str(tmp_path / "o")])
    summary_md = (tmp_path / "o" / "summary.md").read_text(encoding="utf-8")
    assert summary_md.endswith("\n") and "\x00" not in summary_md and summary_md.count("```") == 0
