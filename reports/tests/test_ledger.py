"""The ledger's loader held against every way an entry can be wrong: one line that names file, statement and thing."""

import pytest

from reports.ledger import LedgerError, load_ledger
from reports.subject import Subject
from reports.verdict import Verdict

GOOD = """
[[statement]]
id = "toys.one"
says = "One."
says_id = "Satu."
where = "the first sentence"
warrant = "exact"
needs = []
on_record = "holds"
published = [{ name = "bytes", value = "12,288", unit = "byte" }]
expects = [{ name = "small", relation = "less", value = "0.1", why = "a tenth" }]
"""


@pytest.fixture
def load(tmp_path):
    def write_and_load(text, name="toys.toml"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return load_ledger(tmp_path)

    return write_and_load


def test_a_statement_carries_its_figures_as_intervals(load):
    statement = load(GOOD).statements["toys.one"]
    assert statement.figures["bytes"].interval().contains(12288.4)
    assert not statement.figures["small"].interval().contains(0.1001), "a threshold of ours is exact"
    assert statement.record_for("any-model") is Verdict.HOLDS


def test_records_by_model_and_device(load):
    table = '{ toy = "refuted", "toy@cuda" = "holds" }'
    erratum = 'erratum = "e"\nerratum_id = "e"\nstanding = "likely"\n'
    text = GOOD.replace('"holds"', table, 1).replace("published", erratum + "published")
    text = text.replace('unit = "byte"', 'unit = "byte", on_record = { toy = "refuted" , "toy@cuda" = "holds" }')
    statement = load(text).statements["toys.one"]
    assert statement.record_for("toy", "cpu") is Verdict.REFUTED
    assert statement.record_for("toy", "cuda") is Verdict.HOLDS
    assert statement.record_for("other", "cpu") is None


def test_a_record_for_every_model_was_made_in_fp32(load):
    statement = load(GOOD).statements["toys.one"]
    assert statement.record_for("toy-bfloat16", "cpu", usual=False) is None
    named = load(GOOD.replace('on_record = "holds"', 'on_record = { default = "holds", toy-bfloat16 = "holds" }'))
    assert named.statements["toys.one"].record_for("toy-bfloat16", "cpu", usual=False) is Verdict.HOLDS


def test_another_number_format_is_another_subject():
    fp32 = {"slug": "toy", "device": "cpu", "dtype": "float32"}
    told = [Subject(frozenset(), model) for model in (fp32, fp32 | {"dtype": "bfloat16"}, fp32 | {"dtype": None}, None)]
    assert [subject.slug for subject in told] == ["toy", "toy-bfloat16", "toy", None]
    assert [subject.usual_format for subject in told] == [True, False, True, True]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"12,288"', '"12.288,5"', "malformed number"),
        ('"12,288"', "12288", "figures are strings"),
        ('says_id = "Satu."\n', "", "missing ['says_id']"),
        ('"exact"', '"certain"', "warrant ['certain'] not among"),
        ("needs = []", 'needs = ["luck"]', "needs ['luck'] not among"),
        ('relation = "less"', 'relation = "smaller"', "relation ['smaller'] not among"),
        (', why = "a tenth"', "", "needs its derivation"),
        ('name = "small"', 'name = "bytes"', "named twice"),
        ('"holds"', '"fine"', "is none of holds, conditional, refuted, "),
        ('"holds"', '"refuted"', "needs erratum"),
        ('on_record = "holds"', 'erratum = "x"', "nothing refuted or conditional"),
        ('where = "the first sentence"', 'where = "x"\ncolour = "red"', "unknown ['colour']"),
        ('id = "toys.one"', 'id = "games.one"', "belongs in section 'games'"),
        ("[[statement]]", "[[statement", "not valid TOML"),
        ("[[statement]]", "[[claim]]", "expected [[statement]] tables only"),
        ('relation = "less", value = "0.1"', 'relation = "true", value = "0.1"', "takes no value"),
        ('relation = "less", value = "0.1"', 'relation = "less"', "needs a value"),
    ],
)
def test_a_wrong_entry_is_one_line_naming_the_thing(load, old, new, fault):
    with pytest.raises(LedgerError) as caught:
        load(GOOD.replace(old, new, 1))
    message = str(caught.value)
    assert fault in message and message.startswith("toys.toml:") and "\n" not in message.removesuffix("\n")


def test_the_record_of_a_statement_is_that_of_its_worst_figure(load):
    figure = GOOD.replace('unit = "byte"', 'unit = "byte", on_record = "refuted"')
    with pytest.raises(LedgerError, match="on record holds for 'default', but its worst figure is refuted"):
        load(figure)


def test_a_figure_with_records_by_model_has_none_for_another(load):
    text = GOOD.replace('unit = "byte"', 'unit = "byte", on_record = { toy = "holds" }')
    figures = load(text).statements["toys.one"].figures
    assert figures["bytes"].record_for("toy") is Verdict.HOLDS
    assert figures["bytes"].record_for("other") is None
    assert figures["small"].record_for("other") is Verdict.HOLDS


def test_a_duplicate_id_names_both_places(load):
    with pytest.raises(LedgerError, match=r"duplicate id 'toys.one'"):
        load(GOOD + GOOD)


CONDITIONAL = GOOD.replace(
    'on_record = "holds"', 'on_record = "conditional"\nerratum = "e"\nerratum_id = "e"\nstanding = "proven"'
)
CASES = 'relation = "less", over = "length", on_record = "conditional"'


def test_a_conditional_figure_says_at_which_cases_it_holds(load):
    told = load(CONDITIONAL.replace('relation = "less"', CASES + ', true_at = ["8", "16"]'))
    assert told.statements["toys.one"].figures["small"].true_at == ("8", "16")
    with pytest.raises(LedgerError, match="'small' is conditional on record: say at which cases"):
        load(CONDITIONAL.replace('relation = "less"', CASES))
    with pytest.raises(LedgerError, match="true_at goes with a figure over several cases"):
        load(GOOD.replace('relation = "less"', 'relation = "less", true_at = ["8"]'))


def test_a_clock_need_not_say_it(load):
    load(CONDITIONAL.replace('relation = "less"', CASES).replace('"exact"', '"timed"'))
