"""The shape of the code: imports point one way, pure layers stay pure, files and functions stay small."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "signoff"
PURE_LAYERS = {"core", "read", "judge", "report"}
MAY_IMPORT = {  # a layer may import itself and what is listed here; nothing else of ours
    "errors": set(),
    "core": {"errors"},
    "read": {"errors", "core"},
    "judge": {"errors", "core", "read"},
    "report": {"errors", "core", "judge"},
    "collect": {"errors", "core", "read"},  # a probe cannot see a criterion, so it cannot judge
    "bundle": {"errors", "core"},
    "sim": {"errors", "core"},  # the simulated truth shares no formula with the judge
    "run": {"errors", "core", "read", "judge", "collect", "bundle", "report"},
    "web": {"errors", "core", "judge", "report", "bundle", "run"},
    "cli": {"errors", "core", "read", "judge", "collect", "bundle", "report", "sim", "run", "web", "terminal"},
    "terminal": {"core"},
    "__main__": {"cli"},
}
IMPURE_MODULES = {
    "asyncio",
    "datetime",
    "glob",
    "os",
    "pathlib",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "time",
    "uuid",
}
IMPURE_NAMES = {"open", "input", "print"}
BANNED_WORDS = {"utils", "common", "helpers"}
FILE_LINES_MAX, FUNCTION_LINES_MAX = 400, 60
ONE_FILE_BY_NEED = {"collect/environment/node_probe.py"}


def imports_of(tree: ast.AST) -> set[tuple[str, ...]]:
    names = set()
    for node in ast.walk(tree):  # walks into functions too: a lazy import is still an import
        if isinstance(node, ast.Import):
            names |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {(*node.module.split("."), alias.name) for alias in node.names}
    return names


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_tidy(path: Path) -> None:
    text, place = path.read_text(), path.relative_to(ROOT)
    tree, layer = ast.parse(text), place.parts[0].removesuffix(".py")
    assert not {part.removesuffix(".py") for part in place.parts} & BANNED_WORDS
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert not [name for name in names if name.endswith(("Manager", "Factory", "Mixin"))]
    for top, *rest in imports_of(tree):
        if top == "signoff" and layer != "__init__" and rest != ["__version__"]:
            assert rest[0] in MAY_IMPORT[layer] | {layer}, f"{layer} must not import {rest[0]}"
        assert layer not in PURE_LAYERS or top not in IMPURE_MODULES, f"{layer} is pure: no {top}"
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert layer not in PURE_LAYERS or not calls & IMPURE_NAMES, f"{layer} is pure: no {calls & IMPURE_NAMES}"
    if str(place) in ONE_FILE_BY_NEED:
        return
    assert text.count("\n") <= FILE_LINES_MAX
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < FUNCTION_LINES_MAX, f"{node.name} is too long"
