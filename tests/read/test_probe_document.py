"""Probe documents: any bytes are read without raising, and nothing is made up."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.probe import PROBE_SCHEMA, read_probe

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
KEYS = ("probe", "facts", "servers", "listeners", "commands", "kernel")
SERVER_KEYS = ("pid", "command", "environment", "ports", "processes", "libraries", "packages", "facts", "api_key")
FACT = st.fixed_dictionaries({"readings": TREES, "missing": TREES})


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(raw: bytes) -> None:
    assert read_probe(raw).error


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from(KEYS), TREES | st.dictionaries(st.text(max_size=8), FACT, max_size=3)),
    st.lists(st.dictionaries(st.sampled_from(SERVER_KEYS), TREES), max_size=3),
)
def test_any_document_of_the_schema_is_survived(tree: dict[str, object], servers: list[dict[str, object]]) -> None:
    probe = read_probe(json.dumps({"servers": servers, **tree, "schema": PROBE_SCHEMA}).encode())
    assert not probe.error or "JSON" in probe.error  # NaN and infinities are no JSON
    for server in probe.servers:
        assert all(isinstance(word, str) for word in server.command)


def test_depth_and_size_are_bounded() -> None:
    assert read_probe(b"[" * 100_000).error
    assert "bytes" in read_probe(b" " * (16 * 1024 * 1024 + 1)).error


def test_control_characters_and_empty_readings_are_left_out() -> None:
    facts = {
        "driver": {"readings": [{"source": "s", "how": "h", "value": "580\x1b[31m"}, {"value": ""}, 7], "missing": 3}
    }
    probe = read_probe(json.dumps({"schema": PROBE_SCHEMA, "facts": facts}).encode())
    assert probe.fact("driver").values() == ("580 [31m",)
    assert probe.fact("other").value is None


def test_disagreeing_readings_have_no_value() -> None:
    readings = [{"source": "a", "how": "x", "value": "1"}, {"source": "b", "how": "y", "value": "2"}]
    document = {"schema": PROBE_SCHEMA, "facts": {"f": {"readings": readings, "missing": []}}}
    fact = read_probe(json.dumps(document).encode()).fact("f")
    assert fact.value is None
    assert fact.values() == ("1", "2")
    assert fact.sources() == ("a", "b")
