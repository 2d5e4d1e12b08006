"""Field cases of our own: each folder holds what somebody has in hand, and case.yaml what it comes to."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from signoff.core.words import Severity
from signoff.run.diagnose import diagnose

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/case.yaml"))


def label(path: Path) -> dict[str, Any]:
    return YAML(typ="safe").load(path.read_text())


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_case(path: Path) -> None:
    wanted = label(path)
    found = diagnose([file for file in sorted(path.parent.iterdir()) if file != path])
    expect = wanted["expect"]
    assert found.cause in {expect["cause"], *expect.get("also", [])}, found.summary
    assert found.verdict == expect["verdict"], found.summary
    assert found.phase == expect["phase"], found.summary
    failed = [finding.text for finding in found.findings if finding.severity is Severity.FAIL]
    for part in wanted.get("cites", []):
        assert any(part in text for text in failed), f"nothing that failed cites {part!r}"
    for part in wanted.get("not_failed", []):
        assert not any(part in text for text in failed), f"{part!r} is harmless here and was failed"
    assert found.summary
    assert found.remedy
