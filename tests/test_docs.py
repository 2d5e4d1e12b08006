"""Documents stay true: what they name exists, and what exists is named."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest
import typer

from signoff.cli import app
from signoff.core.plan import Plan
from signoff.core.plan_text import _struct_of
from signoff.core.verdict import EXIT_CODES
from signoff.judge.catalogue import ALL
from signoff.judge.checklist import ITEMS
from signoff.report.explain import findings_page
from signoff.run.announce import UNUSED

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh-Hant.md")


def text(name: str) -> str:
    return (ROOT / name).read_text()


def plan_keys(kind: type, path: str = "") -> list[str]:
    keys = []
    for name, hint in get_type_hints(kind).items():
        inner = _struct_of(hint)
        keys += plan_keys(inner, f"{path}{name}.") if inner is not None else [f"{path}{name}"]
    return keys


@pytest.mark.parametrize("key", plan_keys(Plan))
def test_every_key_of_the_plan_is_documented(key):
    last = key.split(".")[-1]
    assert (
        f"`{key}`" in text("docs/plan.md")
        or f"`.{last}`" in text("docs/plan.md")
        or f"[].{last}`" in text("docs/plan.md")
    )


def test_the_page_of_findings_is_the_catalogue():
    assert text("docs/findings.md") == findings_page(), "run `make docs`"


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.code)
def test_every_finding_is_explained_whole(entry):
    for words in (entry.title, entry.checked, entry.matters, entry.measured, entry.changes):
        assert len(words) > 3
    assert entry.sentences


def test_codes_are_unique():
    codes = [entry.code for entry in ALL]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("number", ITEMS)
def test_the_checklist_is_documented(number):
    assert f"{number}. {ITEMS[number]}" in text("docs/verdict.md")


@pytest.mark.parametrize("readme", READMES)
def test_the_readmes_name_commands_that_exist(readme):
    commands = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"^    signoff ([a-z]+)", text(readme), re.MULTILINE))
    assert named
    assert named <= commands
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)`", text(readme))) <= targets
    for verdict, code in EXIT_CODES.items():
        assert f"| `{verdict}` | {code} |" in text(readme)


def test_every_command_is_in_the_readme():
    assert all(f"signoff {name}" in text("README.md") for name in typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def test_the_architecture_names_layers_that_exist():
    layers = {path.name for path in (ROOT / "src" / "signoff").iterdir() if path.is_dir() and any(path.glob("*.py"))}
    named = set(re.findall(r"^    ([a-z]+)/", text("ARCHITECTURE.md"), re.MULTILINE))
    assert named == layers
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text("ARCHITECTURE.md")):
        assert (ROOT / "src" / "signoff" / name).exists() or (ROOT / name).exists(), name


def test_links_between_documents_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(
    "path", [p for p in ROOT.glob("src/**/*") if p.suffix in (".py", ".yaml", ".j2")], ids=lambda p: p.name
)
def test_the_product_speaks_of_itself_alone(path):
    assert not re.search(r"/home/\w|/Users/\w|/wor[k]/", path.read_text()), path
    assert not re.search(
        r"\bdesign\b[^.\n]{0,20}\bsection\b|\bdesign of the product\b|\bdesign\.md\b", path.read_text()
    )


@pytest.mark.parametrize("path", sorted((ROOT / "src").glob("**/*.py")), ids=str)
def test_documents_that_the_source_names_exist(path):
    for name in re.findall(r"\bdocs/[a-z_]+\.md\b", path.read_text()):
        assert (ROOT / name).exists(), f"{path}: {name}"


@pytest.mark.parametrize("key", UNUSED)
def test_keys_that_nothing_reads_are_marked(key):
    last = key.rpartition(".")[2]
    rows = [row for row in text("docs/plan.md").splitlines() if row.startswith("|") and "not used yet" in row]
    assert any(f"`{key}" in row or f"`.{last}`" in row for row in rows), key
