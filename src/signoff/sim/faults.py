"""The named faults of the simulated service: what each does, which gate sees it, and what its strength means.

A fault is written `name` or `name=strength`. Several may be on at once. A share strikes by request id, so that the same
ids fail in the same places. Nothing here can make the measuring client itself slow: that is a fault of the other side.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from signoff.core.words import Gate
from signoff.errors import SignoffError
from signoff.sim.host_faults import FAULTS as HOST_FAULTS
from signoff.sim.settings import Settings


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that can be wrong. `strength` is the default one; `None`: it is on or off."""

    name: str
    says: str
    gate: Gate
    strength: float | None = None
    unit: str = ""
    """What the strength counts: `share`, `tokens`, `streams`, `requests`, ..."""


def _faults(gate: Gate, *rows: tuple[str, str, float | None, str]) -> tuple[Fault, ...]:
    return tuple(Fault(name=n, says=says, gate=gate, strength=s, unit=unit) for n, says, s, unit in rows)


_ENVIRONMENT = tuple(Fault(name=f.name, says=f.says, gate=Gate.ENVIRONMENT) for f in HOST_FAULTS)
_CAPACITY = _faults(
    Gate.CAPACITY,
    ("load-oom", "GPU 3 runs out of memory while the weights load; the server exits", None, ""),
    ("load-kv-too-small", "what is left for KV cannot hold one request of the window; the server exits", None, ""),
    ("load-shard-truncated", "a checkpoint shard is cut short; the server exits", None, ""),
    ("load-no-tool-parser", "launched without a tool-call parser: automatic tool choice is refused", None, ""),
    ("long-oom", "the engine runs out of memory on a prompt above the strength and dies", 60_000, "tokens"),
    ("long-reject", "the window is smaller than declared: longer prompts are refused", 65_536, "tokens"),
    ("long-wrong", "above the strength answers are one repeated token", 40_000, "tokens"),
    ("long-hang", "the engine stops stepping on a prompt above the strength; /health stays 200", 60_000, "tokens"),
    (
        "conc-kv-small",
        "the KV pool holds about as many requests as the strength; more wait or are preempted",
        2,
        "streams",
    ),
    ("conc-slots", "max_num_seqs is the strength: more requests wait while KV is free", 2, "streams"),
    (
        "conc-slow-prefill",
        "prefill computes only the strength a second: requests queue at low KV use",
        10_000,
        "tokens/s",
    ),
    ("conc-errors", "HTTP 500 while at least as many requests as the strength are open", 12, "streams"),
    ("soak-leak-kv", "this share of ended requests never gives its KV blocks back", 0.2, "share"),
    ("soak-degrade", "every ended request makes all later steps slower by this share", 0.004, "share"),
    ("soak-inband-error", "this share of streams ends in HTTP 200 and an error event", 0.1, "share"),
    ("soak-engine-death", "the engine dies this long after the first request; the server exits soon after", 19, "s"),
    ("soak-hang", "the engine stops stepping this long after the first request; /health stays 200", 19, "s"),
    ("soak-restart", "the server process restarts this long after the first request: counters begin again", 19, "s"),
    ("soak-foreign-traffic", "somebody else sends this many requests a second to the same server", 4, "requests/s"),
)
_CLIENT = _faults(
    Gate.CAPACITY,
    ("client-resubmits", "a caller beside us sends every request again: the counters hold twice as much", None, ""),
)
_PREFIX = _faults(
    Gate.PREFIX,
    ("prefix-off", "launched without prefix caching: queries stay flat", None, ""),
    (
        "prefix-silent-off",
        "launched with prefix caching, silently inert: queries are counted, nothing ever hits",
        None,
        "",
    ),
    ("prefix-nonce", "a stamp is put before every prompt behind the API, so that no two begin alike", None, ""),
    ("prefix-sparse", "states are kept at replay boundaries and junctions only", None, ""),
    ("prefix-dead-counter", "the cache works, its counters stay zero", None, ""),
    ("prefix-false-hit", "hits are reported for prompts that were never seen", None, ""),
    ("prefix-evict", "whatever nobody holds is evicted from the prefix cache at once", None, ""),
)
_AGENT = _faults(
    Gate.AGENT,
    ("tool-markup-leak", "raw control marks of the tool call stand in content", 1.0, "share"),
    ("tool-empty", "finish reason tool_calls without any tool call", 1.0, "share"),
    ("tool-in-reasoning", "the whole turn lands in reasoning, no tool call", 1.0, "share"),
    ("tool-wrong-name", "the call names a tool that was not offered", 1.0, "share"),
    ("tool-none", "the model answers in words where a call was due", 1.0, "share"),
    ("args-string", "arguments decode to a string instead of an object", 1.0, "share"),
    ("args-missing", "a required argument is missing", 1.0, "share"),
    ("args-wrong-type", "an argument has the wrong JSON type", 1.0, "share"),
    ("args-broken-json", "arguments are not JSON", 1.0, "share"),
    ("args-schema-broken", "structured output breaks its schema", 1.0, "share"),
    ("reasoning-leak", "thoughts and their marks stand in content", 1.0, "share"),
    ("reasoning-lost", "the reasoning field is empty although the model thought", 1.0, "share"),
    ("gateway-drop-reasoning", "the gateway drops the reasoning field", None, ""),
    ("gateway-drop-ids", "the gateway drops id and name of tool calls", None, ""),
    ("gateway-reencode", "the gateway encodes tool arguments once more", None, ""),
    ("gateway-duplicate", "the gateway sends every request twice", None, ""),
    ("gateway-cut", "the gateway ends streams after this many events", 4, "events"),
    (
        "retry-duplicate-effect",
        "the gateway sends a request again when the answer takes longer than the strength",
        20,
        "ms",
    ),
)
FAULTS: tuple[Fault, ...] = (*_ENVIRONMENT, *_CAPACITY, *_PREFIX, *_AGENT, *_CLIENT)
_BY_NAME = {fault.name: fault for fault in FAULTS}


def parse(text: str) -> tuple[Fault, float | None]:
    """`name` or `name=strength`; SignoffError for an unknown name or a strength that is no positive number."""
    name, _, given = text.partition("=")
    fault = _BY_NAME.get(name)
    if fault is None:
        raise SignoffError(f"unknown fault {name!r}", "`signoff sim --list-faults` names them all.")
    if not given:
        return fault, fault.strength
    try:
        strength = float(given)
    except ValueError:
        strength = -1.0
    if fault.strength is None or not 0 < strength < float("inf") or (fault.unit == "share" and strength > 1):
        wanted = f"a positive number of {fault.unit}" if fault.strength is not None else "no strength"
        raise SignoffError(
            f"fault {name} takes {wanted}, not {given!r}", "`signoff sim --list-faults` says what each takes."
        )
    return fault, strength


def strengths(faults: Sequence[str]) -> dict[str, float]:
    """Fault name to strength; 1 for those that are on or off."""
    return {fault.name: 1.0 if strength is None else strength for fault, strength in map(parse, faults)}


def list_faults() -> list[str]:
    """A line each: name, then what it does."""
    return [f"{f.name}  {f.says}" + (f" (={f.strength:g} {f.unit})" if f.strength is not None else "") for f in FAULTS]


def settings_with(faults: Sequence[str], *, seed: int = 1, base: Settings | None = None) -> Settings:
    """The settings of a service with `faults`."""
    on = strengths(faults)
    values: dict[str, object] = {"seed": seed, "faults": on}
    if "long-reject" in on:
        values["window"] = int(on["long-reject"])
    if "conc-slots" in on:
        values["slots"] = int(on["conc-slots"])
    if "prefix-off" in on or "env-caching-off" in on:
        values["prefix_caching"] = False
    if "load-no-tool-parser" in on or "env-no-parser" in on:
        values["tool_parser"] = None
    if "prefix-sparse" in on:
        values["sparse"] = True
    if "conc-kv-small" in on:
        values |= _small_pool(base or Settings(), int(on["conc-kv-small"]))
    return msgspec.structs.replace(base or Settings(), **values)


def _small_pool(settings: Settings, streams: int) -> dict[str, object]:
    """A pool that just holds one request of the window, and state pages so large that `streams` requests fill it.

    With `s` state blocks a request and `w` blocks a window, (w + s) / (s + 3) short requests of three blocks fit.
    """
    window = -(-settings.window // settings.unit)
    state = max(settings.state_blocks, (window - 3 * streams) // max(1, streams - 1))
    return {"kv_blocks": window + state, "state_blocks": state}
