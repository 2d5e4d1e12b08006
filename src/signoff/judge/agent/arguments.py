"""Arguments against a JSON schema, and which way they break it."""

from functools import lru_cache
from typing import Any, Literal

import jsonschema_rs
import msgspec

from signoff.core.codec import to_json
from signoff.read.answer import Call, decoded

Broken = Literal["not_json", "double_encoded", "wrong_type", "missing_argument", "extra_argument", "schema_broken"]
_KINDS: dict[str, Broken] = {
    "required": "missing_argument",
    "additionalProperties": "extra_argument",
    "unevaluatedProperties": "extra_argument",
    "type": "wrong_type",
}
_ORDER: tuple[Broken, ...] = ("double_encoded", "missing_argument", "extra_argument", "wrong_type", "schema_broken")
ERRORS_MAX = 50


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Any:
    return jsonschema_rs.validator_for(msgspec.json.decode(schema), offline=True)


def invalid(arguments: str, schema: dict[str, Any]) -> tuple[Broken, str] | None:
    """How `arguments`, JSON text, breaks `schema`; `None` when it does not.

    Of several faults the one is named that explains the others: a second encoding, then what is missing."""
    value, trouble = decoded(arguments)
    if trouble:
        return "not_json", trouble
    try:
        errors = [
            _fault(e) for e, _ in zip(_validator(to_json(schema)).iter_errors(value), range(ERRORS_MAX), strict=False)
        ]
    except (ValueError, RecursionError) as error:
        return "schema_broken", f"cannot be checked: {str(error)[:200]}"
    if not errors:
        return None
    return min(errors, key=lambda fault: (_ORDER.index(fault[0]), fault[1]))


def _fault(error: Any) -> tuple[Broken, str]:
    keyword = str(error.schema_path[-1]) if error.schema_path else ""
    name = getattr(error.kind, "name", keyword)
    place = "/".join(str(step) for step in error.instance_path)
    detail = f"{place + ': ' if place else ''}{error.message}"[:300]
    if name == "type" and isinstance(error.instance, str):
        if not place and error.kind.as_dict().get("types") == ["object"]:
            return "double_encoded", "decodes to a string"
        inner, trouble = decoded(error.instance)
        if not trouble and isinstance(inner, dict | list):
            return "double_encoded", f"{place}: JSON inside a string"
    return _KINDS.get(name, "schema_broken"), detail


def same_call(one: Call, other: Call) -> bool:
    """Same tool and the same arguments, whatever their spacing and order."""
    if one.name != other.name:
        return False
    a, a_trouble = decoded(one.arguments)
    b, b_trouble = decoded(other.arguments)
    return a == b if not a_trouble and not b_trouble else one.arguments == other.arguments
