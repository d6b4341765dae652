"""The tree itself: nothing in it unpickles, evaluates, trusts a model, hands words to a shell, or calls the network."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("lib", "fixtures", "reports", "claims")
PICKLES = frozenset({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "pandas"})
NETWORK = frozenset({"requests", "urllib", "urllib3", "http", "httpx", "aiohttp", "socket", "ftplib", "smtplib"})
UNPICKLES = frozenset({"pickle.load", "pickle.loads", "pickle.Unpickler"})
BUILTINS = frozenset({"eval", "exec", "compile", "__import__"})
CALLS = frozenset({
    "torch.load", "torch.hub.load", "torch.jit.load", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "os.system",
    "os.popen", "os.execv", "os.execvp", "os.spawnv", "subprocess.getoutput", "subprocess.getstatusoutput",
    "numpy.load", "np.load", "runpy.run_path",
})  # fmt: skip
# What is done all the same, where, and why.
ALLOWED = {
    ("fixtures/tests/test_model_weights.py", "import pickle"): "a bomb, to see that it is never opened",
    ("fixtures/tests/test_model_weights.py", "pickle.load"): "the wrong variant: the bomb is live",
}


def faults(text: str) -> Iterator[str]:
    """What a module does that nothing here may."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.Dict):
            pairs = ((k.value, v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant))
            yield from (found for key, value in pairs for found in _keyword(str(key), value))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for name in names:
        if name.partition(".")[0] in PICKLES | NETWORK:
            yield f"import {name}"


def _call(node: ast.Call) -> Iterator[str]:
    called = ast.unparse(node.func)
    if (isinstance(node.func, ast.Name) and called in BUILTINS) or called in CALLS or called in UNPICKLES:
        yield called
    for keyword in node.keywords:
        yield from _keyword(keyword.arg or "", keyword.value)


def _keyword(name: str, value: ast.expr) -> Iterator[str]:
    off = isinstance(value, ast.Constant) and value.value in {False, None}
    if name in {"shell", "allow_pickle"} and not off:
        yield name
    if (
        name == "trust_remote_code"
        and not off
        and not (isinstance(value, ast.Constant) and isinstance(value.value, str))
    ):
        yield "trusts a model"


def modules() -> list[Path]:
    return [ROOT / "conftest.py", *(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))]


def test_nothing_in_the_tree_does_what_it_must_not() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), fault) for path in modules() for fault in faults(path.read_text("utf-8"))
    }
    assert found == set(ALLOWED), "no more than is permitted, and no permission unused"


@pytest.mark.parametrize(
    "wrong",
    [
        "AutoModel.from_pretrained(x, trust_remote_code=True)",
        "AutoModel.from_pretrained(x, trust_remote_code=asked)",
        "f(**{'trust_remote_code': True})",
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load(path, weights_only=True)",
        "import joblib",
        "yaml.load(text)",
        "eval(text)",
        "exec(text)",
        "__import__(name)",
        "np.load(path)",
        "load(path, allow_pickle=True)",
        "subprocess.run(command, shell=True)",
        "subprocess.run(command, shell=quick)",
        "os.system(command)",
        "os.popen(command)",
        "import requests",
        "import urllib.request",
        "from urllib.request import urlopen",
        "import http.client",
        "from socket import create_connection",
    ],
)
def test_each_wrong_line_is_seen(wrong: str) -> None:
    assert list(faults(wrong))


@pytest.mark.parametrize(
    "sound",
    [
        "model.eval()",
        "re.compile('x')",
        "from_pretrained(x, trust_remote_code=False)",
        "subprocess.run(command, shell=False)",
        "from urllib3x import y",
        "spec.socket",
    ],
)
def test_what_only_looks_alike_is_not(sound: str) -> None:
    assert not list(faults(sound))


def loaders(text: str) -> list[str]:
    """Calls that load a model, a config or a tokenizer, without the word that forbids its code."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    loading = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "from_pretrained"]
    return [ast.unparse(c) for c in loading if not {"trust_remote_code", None} & {k.arg for k in c.keywords}]


def test_every_loader_says_that_it_does_not_trust() -> None:
    """Left out, transformers would ask whoever sits at the terminal."""
    rooms = [path for path in modules() if "tests" not in path.parts]
    assert [found for path in rooms for found in loaders(path.read_text("utf-8"))] == []
    assert loaders("AutoTokenizer.from_pretrained(folder)")
