"""How the simulated model finds its arguments: quoted strings, digits and enum values of the text, in order."""

import re
from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

_QUOTED = re.compile(r'"([^"]{0,4000})"')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO = {"no", "not", "without"}
DEPTH_MAX = 8


class Material:
    """What a text offers, each piece used once; when a kind runs out its last piece serves again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._strings = _QUOTED.findall(text)
        plain = _QUOTED.sub(" ", text)
        self._numbers = [float(n) if "." in n else int(n) for n in _NUMBER.findall(plain)]
        self._words = _WORD.findall(text.lower())
        self.yes = not _NO & set(self._words)
        self._strings_used = self._numbers_used = 0

    @property
    def strings_left(self) -> int:
        return len(self._strings) - self._strings_used

    @property
    def numbers_left(self) -> int:
        return len(self._numbers) - self._numbers_used

    def string(self) -> str:
        self._strings_used += 1
        if not self._strings:
            return self._words[-1] if self._words else "text"
        return str(self._strings[min(self._strings_used, len(self._strings)) - 1])

    def number(self) -> float | int:
        self._numbers_used += 1
        return self._numbers[min(self._numbers_used, len(self._numbers)) - 1] if self._numbers else 1

    def choice(self, values: list[Any]) -> Any:
        """The enum value that occurs in the text, the earliest; the first of all when none does."""
        found = [(place, value) for value in values if (place := self._place(value)) >= 0]
        return min(found, key=lambda pair: pair[0])[1] if found else values[0]

    def names(self, values: list[Any]) -> bool:
        return any(self._place(value) >= 0 for value in values)

    def _place(self, value: Any) -> int:
        """Where `value` stands in the text as a word of its own; -1: nowhere."""
        found = re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", self.text, re.IGNORECASE)
        return found.start() if found else -1


def words_of(name: str) -> list[str]:
    """The words of a tool name: `getWeather` and `get_weather` both give get, weather."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", name).replace("_", " "))]


def best_tool(names: Iterable[str], text: str) -> str | None:
    """The name whose words best match `text`; `None` when no word of any occurs in it."""
    said = set(_WORD.findall(text.lower()))
    scored = [(sum(word in said for word in words_of(name)) / max(1, len(words_of(name))), name) for name in names]
    top = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return top[1] if top[0] > 0 else None


def fill(schema: Schema, material: Material, root: Schema | None = None, depth: int = 0) -> Any:
    """A value that obeys `schema` as far as this model understands schemas."""
    root = schema if root is None else root
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return material.choice(schema["enum"])
    kind = _kind(schema)
    if kind == "object":
        return _object(schema, material, root, depth)
    if kind == "array":
        return _array(schema, material, root, depth)
    if kind in ("number", "integer"):
        return _number(schema, material, kind)
    if kind == "boolean":
        return material.yes
    return None if kind == "null" else material.string()


def _resolved(schema: Schema, root: Schema) -> Schema:
    for _ in range(DEPTH_MAX):
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = root
            for part in reference[2:].split("/"):
                target = target.get(part, {}) if isinstance(target, dict) else {}
            schema = target if isinstance(target, dict) else {}
            continue
        options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if isinstance(options, list) and options:
            real = [o for o in options if isinstance(o, dict) and o.get("type") != "null"]
            schema = real[0] if real else {"type": "null"}
            continue
        break
    return schema


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _object(schema: Schema, material: Material, root: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or depth >= DEPTH_MAX:
        return {}
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    made = {n: fill(properties[n], material, root, depth + 1) for n in properties if n in required}
    for name, inner in properties.items():
        if name not in made and isinstance(inner, dict) and _offered(_resolved(inner, root), material):
            made[name] = fill(inner, material, root, depth + 1)
    return {name: made[name] for name in properties if name in made}


def _offered(schema: Schema, material: Material) -> bool:
    """Whether the text says anything for an optional property."""
    if isinstance(schema.get("enum"), list):
        return material.names(schema["enum"])
    kind = _kind(schema)
    if kind == "string":
        return material.strings_left > 0
    return kind in ("number", "integer") and material.numbers_left > 0


def _array(schema: Schema, material: Material, root: Schema, depth: int) -> list[Any]:
    items = schema.get("items")
    items = items if isinstance(items, dict) else {"type": "string"}
    if depth >= DEPTH_MAX:
        return []
    resolved = _resolved(items, root)
    left = {"string": material.strings_left, "number": material.numbers_left, "integer": material.numbers_left}
    wanted = max(1, left.get(_kind(resolved), 1) if "enum" not in resolved else 1)
    least, most = schema.get("minItems", 1), schema.get("maxItems", 16)
    wanted = min(max(wanted, least if isinstance(least, int) else 1), most if isinstance(most, int) else 16)
    return [fill(items, material, root, depth + 1) for _ in range(wanted)]


def _number(schema: Schema, material: Material, kind: str) -> float | int:
    value = material.number()
    for bound, pick in (("minimum", max), ("maximum", min)):
        if isinstance(schema.get(bound), int | float):
            value = pick(value, schema[bound])
    return int(value) if kind == "integer" else value
