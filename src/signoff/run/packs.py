"""Packs: fixed samples, read from the package or from a file of the user, checked before anything is sent."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from signoff.core.sample import KINDS, Pack, Sample
from signoff.errors import SignoffError

DEFAULT_PACKS = ("fixed",)
PACK_BYTES_MAX = 4_000_000


def load_packs(names: tuple[str, ...]) -> Pack:
    """The packs of the plan as one; no name means the fixed samples that come with the product.

    A name with a slash or an ending is a file, any other one of ours. Raises SignoffError naming file and sample."""
    packs = [load_pack(name) for name in names or DEFAULT_PACKS]
    if len(packs) == 1:
        return packs[0]
    tools = {tool.name: tool for pack in packs for tool in pack.tools}
    samples = tuple(sample for pack in packs for sample in pack.samples)
    joined = msgspec.structs.replace(
        packs[0],
        name="+".join(pack.name for pack in packs),
        about=" ".join(pack.about for pack in packs),
        tools=tuple(tools.values()),
        samples=samples,
    )
    for pack in packs:
        for tool in pack.tools:
            if tools[tool.name] != tool:
                raise SignoffError(
                    f"agent.packs: two packs give the tool `{tool.name}` differently", "Rename it in one of them."
                )
    check(joined, "agent.packs")
    return joined


def load_pack(name: str) -> Pack:
    """One pack by name or path."""
    text, place = _text(name)
    try:
        tree = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, RecursionError, ValueError) as error:
        raise SignoffError(f"{place}: not readable YAML: {str(error)[:300]}", "Mend the file.") from None
    try:
        pack = msgspec.convert(tree, Pack, strict=True)
    except msgspec.ValidationError as error:
        raise SignoffError(f"{place}: {error}", "A pack has schema, name, version, about, tools, samples.") from None
    check(pack, place)
    return pack


def _text(name: str) -> tuple[str, str]:
    ours = files("signoff").joinpath("packs", f"{name}.yaml")
    is_file = "/" in name or "." in name
    try:
        raw = Path(name).read_bytes() if is_file else ours.read_bytes()
    except OSError as error:
        raise SignoffError(
            f"agent.packs: {name}: {error.strerror}", "Give a file, or one of: " + ", ".join(DEFAULT_PACKS) + "."
        ) from None
    if len(raw) > PACK_BYTES_MAX:
        raise SignoffError(f"{name}: {len(raw)} bytes; a pack has at most {PACK_BYTES_MAX}", "Split it.")
    return raw.decode("utf-8", "replace"), name if is_file else f"packs/{name}.yaml"


def check(pack: Pack, place: str) -> None:
    """Refuse what types cannot say: names that point nowhere, oracles that accept anything, schemas that are none."""
    ids = [sample.id for sample in pack.samples]
    for tool in pack.tools:
        _check_schema(tool.parameters, f"{place}: tool {tool.name}")
    for sample in pack.samples:
        where = f"{place}: sample {sample.id}"
        if ids.count(sample.id) > 1:
            raise SignoffError(f"{where}: the id stands twice", "Rename one.")
        _check_sample(pack, sample, where)


def _check_sample(pack: Pack, sample: Sample, where: str) -> None:
    for name in {*sample.tools, *(rule.tool for rule in sample.calls), *({sample.again} - {""})}:
        if pack.tool(name) is None or name not in sample.tools:
            raise SignoffError(f"{where}: the tool `{name}` is not offered", "Add it to tools.")
    if not any(m.get("role") == "user" and isinstance(m.get("content"), str) for m in sample.messages):
        raise SignoffError(f"{where}: no user message with text", "Add one.")
    if not sample.calls and sample.content is None and sample.values is None:
        raise SignoffError(f"{where}: any answer would be right", "Add calls, content or values.")
    if (sample.kind == "structured") != (sample.response_schema is not None):
        raise SignoffError(f"{where}: response_schema belongs to kind structured", f"Kinds: {', '.join(KINDS)}.")
    for schema in (sample.response_schema, sample.values, *(s for r in sample.calls for s in r.arguments.values())):
        if schema is not None:
            _check_schema(schema, where)


def _check_schema(schema: dict[str, Any], where: str) -> None:
    try:
        jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise SignoffError(f"{where}: not a JSON schema: {str(error)[:200]}", "Mend the schema.") from None
