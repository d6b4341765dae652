"""What the README says of the tree and of adding a claim, taken literally."""

import re
import textwrap
from pathlib import Path

import pytest

from reports.tests.test_plugin import CONFTEST, SUBJECT

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDERS = ("claims", "lib", "fixtures", "reports")
OF_ANY_SECTION = re.compile(r"test_\w+\.py|\w+_(faults|tables)\.py")  # told once, as <section>_…
SPEAK_FOR_THEMSELVES = frozenset({"__init__.py", "__main__.py", "__pycache__", "tests", "baseline", "out"})
NAMED = re.compile(r"(?<![\w>])(\w+\.py|(?<!`)\w+/(?=\s|$))", re.MULTILINE)


def _tree(readme):
    """The annotated lines of each folder, by its name."""
    lines = readme.partition("\n## The tree\n")[2].partition("\nImports run")[0].splitlines()
    told, folder = {}, ""
    for line in (line[4:] for line in lines if line.strip()):
        folder = folder if line.startswith(" ") else line.split()[0].rstrip("/")
        told[folder] = told.get(folder, "") + line.removeprefix(f"{folder}/") + "\n"
    return told


def _there(folder):
    """Modules and folders directly in a folder, as the tree would name them."""
    for path in (ROOT / folder).iterdir():
        if path.name in SPEAK_FOR_THEMSELVES or (OF_ANY_SECTION.fullmatch(path.name) and folder == "claims"):
            continue
        if path.suffix == ".py" or path.is_dir():
            yield path.name + "/" * path.is_dir()


def _faults(readme):
    tree = _tree(readme)
    for folder in FOLDERS:
        named = NAMED.findall(tree[folder])
        yield from (f"{folder}: {name} is not told" for name in _there(folder) if name not in named)
        known = {path.name + "/" * path.is_dir() for path in (ROOT / folder).rglob("*")}
        yield from (f"{folder}: {name} is gone" for name in set(named) - known)
        yield from (f"{folder}: {name} is told twice" for name in set(named) if named.count(name) > 1)


def test_the_annotated_tree_names_every_module_once_and_none_that_is_gone():
    assert list(_faults(README)) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda text: text.replace("parallel.py ", ""), "lib: parallel.py is not told"),
        (lambda text: text.replace("  night/ ", "  "), "reports: night/ is not told"),
        (lambda text: text.replace("guard.py", "guards.py"), "fixtures: guards.py is gone"),
        (lambda text: text.replace("clusters.py", "clusters.py, budget.py"), "lib: budget.py is told twice"),
    ],
)
def test_a_tree_with_a_slip_is_found_out(change, found):
    assert found in list(_faults(change(README)))


def _example(begins_with):
    """The indented block of "Add a claim" that begins so."""
    section = README.partition("\n## Add a claim\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"(?:^ {7}.*\n|^\n)+", section, re.MULTILINE)
    (block,) = (text for block in blocks if (text := textwrap.dedent(block).strip()).startswith(begins_with))
    return block + "\n"


@pytest.fixture
def example(pytester):
    """Run the README's example; `record`: what step 4 adds to the statement."""
    folder = pytester.mkdir("claims")
    pytester.makeconftest(CONFTEST + SUBJECT)
    pytester.makeini("[pytest]\nclaims_need_controls = true\n")
    (folder / "test_cache_size.py").write_text(_example("from lib"), encoding="utf-8")

    def run(*args, record=""):
        (folder / "cache_size.toml").write_text(_example("[[statement]]") + record, encoding="utf-8")
        return pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider", *args)

    return run


def test_the_example_claim_is_new_and_then_as_recorded_and_its_faults_are_seen(example):
    assert example().parseoutcomes() == {"new": 1}
    assert example(record='on_record = "holds"\n').parseoutcomes() == {"passed": 1}
    result = example("--controls", record='on_record = "holds"\n')
    result.stdout.fnmatch_lines(["2 faults planted in 1 claim: 2 seen, 0 missed, 0 undecided"])


def test_the_example_claim_under_another_record_is_red(example):
    assert example(record='on_record = "unresolved"\n').ret != pytest.ExitCode.OK
