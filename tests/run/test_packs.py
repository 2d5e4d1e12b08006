"""The fixed samples are whole, their oracles refuse near misses, and broken packs are refused by name and place."""

from collections import Counter
from pathlib import Path

import jsonschema
import pytest

from signoff.core.sample import KINDS, Sample
from signoff.errors import SignoffError
from signoff.run.packs import load_packs

PACK = load_packs(())
GOOD = """schema: signoff/pack/1
name: own
version: 1
about: ours
tools:
  - {name: f, description: d, parameters: {type: object, properties: {a: {type: string}}, required: [a]}}
samples:
  - id: one
    kind: one_tool
    language: en
    tools: [f]
    messages: [{role: user, content: hi}]
    calls: [{tool: f, arguments: {a: {const: x}}}]
"""


def test_every_kind_has_samples_in_two_languages() -> None:
    kinds = Counter(sample.kind for sample in PACK.samples)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 4
    for kind in KINDS:
        assert {s.language for s in PACK.of_kind(kind)} == {"en", "zh-Hant"}


def test_they_hold_what_agents_send() -> None:
    roles = [[m["role"] for m in s.messages] for s in PACK.samples]
    assert all(r[0] == "system" for r in roles)
    assert any(r.count("user") > 1 and "tool" in r for r in roles)
    schemas = [t.parameters for t in PACK.tools]
    properties = [p for s in schemas for p in s["properties"].values()]
    assert {p["type"] for p in properties} == {"string", "object", "number", "integer", "boolean"}
    assert any("enum" in p for p in properties)
    assert any(set(s["properties"]) - set(s["required"]) for s in schemas)
    assert max(len(s.tools) for s in PACK.samples) >= 5


@pytest.mark.parametrize("sample", [s for s in PACK.samples if s.calls], ids=lambda s: s.id)
def test_right_arguments_obey_the_tools_own_schema(sample: Sample) -> None:
    for rule in sample.calls:
        tool = PACK.tool(rule.tool)
        assert tool is not None
        jsonschema.validate({k: v["const"] for k, v in rule.arguments.items()}, tool.parameters)


@pytest.mark.parametrize("sample", [s for s in PACK.samples if s.values], ids=lambda s: s.id)
def test_right_values_obey_the_response_schema(sample: Sample) -> None:
    assert sample.values is not None
    assert sample.response_schema is not None
    jsonschema.validate(sample.values["const"], sample.response_schema)


def test_a_file_of_the_user_is_read_and_joined(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    assert [s.id for s in load_packs((str(path),)).samples] == ["one"]
    joined = load_packs(("fixed", str(path)))
    assert joined.name == "fixed+own"
    assert joined.sample("one") is not None
    assert joined.sample("weather") is not None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version: 1", "version: one", "version"),
        ("calls: [{tool: f,", "calls: [{tool: g,", "not offered"),
        ("    calls: [{tool: f, arguments: {a: {const: x}}}]\n", "", "any answer"),
        ("{type: string}", "{type: strin}", "not a JSON schema"),
        ("{type: string}", "{$ref: 'http://127.0.0.1:1/x'}", "not a JSON schema"),
        ("role: user", "role: system", "no user message"),
        ("kind: one_tool", "kind: structured", "response_schema"),
        ("name: own", "nam: own", "nam"),
        ("samples:", "samples: [", "YAML"),
    ],
)
def test_a_broken_pack_is_refused_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "own.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SignoffError) as caught:
        load_packs((str(path),))
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_unknown_pack_and_a_repeated_sample_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SignoffError, match="fixed"):
        load_packs(("unknown",))
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    with pytest.raises(SignoffError, match="twice"):
        load_packs((str(path), str(path)))
