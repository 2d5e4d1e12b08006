"""The verdict that a list of faults deserves, from what the simulator does, and from nothing that was measured.

Every fault is ruled alone: which row of the verdict table it makes true, and why. Of several rulings the lowest row
counts. Loads and limits are those of the demo plan: 32 streams wanted, 16 at least, 131,072 input tokens wanted, 32,768
at least, 1 % of requests may fail, 10 % of agent samples.

Strengths count. A share of broken answers up to the error limit is not to be seen as a failure (`go`); well above it,
it is (`rework`); between them a sample cannot tell for sure, and every honest answer is in `also`.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from signoff.core.words import Cause, Scope, VerdictName
from signoff.sim.faults import strengths
from signoff.sim.truth_environment import ENVIRONMENT
from signoff.sim.truth_ruling import Ruling

TARGET, FLOOR = 32, 16
INPUT_TARGET, INPUT_FLOOR = 131_072, 32_768
ERROR_SHARE, AGENT_SHARE = 0.01, 0.1
REQUEST_S, QUEUE_S_MAX = 0.28, 1.0
"""A request of 64 tokens at about 4.3 ms each; the longest wait that the plan allows."""
INPUT_TOKENS, TTFT_S_MAX = 2048, 1.5
_GO, _LIMITED, _REWORK = VerdictName.GO, VerdictName.LIMITED, VerdictName.REWORK
_SCALE, _INCOMPLETE = VerdictName.SCALE, VerdictName.INCOMPLETE


class Truth(Struct, frozen=True, kw_only=True):
    verdict: VerdictName
    also: tuple[VerdictName, ...] = ()
    """Verdicts that are as right, where the rules leave room or a sample can fall either way."""
    scope: Scope | None
    cause: Cause
    why: str


def _go(why: str, *also: VerdictName, cause: Cause = Cause.NONE) -> Ruling:
    return Ruling(row=8, verdict=_GO, also=also, cause=cause, why=why)


def _software(cause: Cause, why: str, *also: VerdictName) -> Ruling:
    return Ruling(row=2, verdict=_REWORK, scope=Scope.SOFTWARE, cause=cause, why=why, also=also)


def _launch(cause: Cause, why: str, *also: VerdictName) -> Ruling:
    return Ruling(row=1, verdict=_REWORK, scope=Scope.LAUNCH, cause=cause, why=why, also=also)


def _interface(cause: Cause, why: str, *also: VerdictName) -> Ruling:
    return Ruling(row=3, verdict=_REWORK, scope=Scope.INTERFACE, cause=cause, why=why, also=also)


def _limited(cause: Cause, why: str, *also: VerdictName) -> Ruling:
    return Ruling(row=7, verdict=_LIMITED, cause=cause, why=why, also=also)


def _long(limit: float, ruling: Ruling) -> Ruling:
    """A fault of long prompts shows only when the plan's longest prompt is above its limit."""
    return ruling if limit < INPUT_TARGET else _go("no prompt of the plan is as long as that")


def _long_reject(limit: float) -> Ruling:
    if limit > INPUT_TARGET + 16:
        return _launch(Cause.LONG_INPUT, "the window contradicts the recipe's, though it holds what the plan asks", _GO)
    return _launch(Cause.LONG_INPUT, "the launch's window is smaller than the input the plan asks for", _LIMITED)


def _queue(streams: float, low: Ruling, cause: Cause) -> Ruling:
    """`streams` requests at once; the others wait for their turn."""
    waits = {load: (load / streams - 1) * REQUEST_S for load in (FLOOR, TARGET)}
    if waits[FLOOR] > QUEUE_S_MAX:
        return low
    if waits[TARGET] > QUEUE_S_MAX:
        return _limited(cause, "the floor is held within the limits, the target is not", low.verdict)
    return _go("even at the target nobody waits longer than the limit", _LIMITED, cause=cause)


def _kv_small(streams: float) -> Ruling:
    why = "KV is full and the wait above its limit at the least load already"
    low = Ruling(row=5, verdict=_SCALE, cause=Cause.CONCURRENCY, why=why)
    return _queue(streams, low, Cause.CONCURRENCY)


def _slots(streams: float) -> Ruling:
    why = "the floor is lost to max_num_seqs, a launch value, with KV free"
    low = _launch(Cause.CONCURRENCY, why, _SCALE)
    return _queue(streams, low, Cause.CONCURRENCY)


def _slow_prefill(tokens_per_s: float) -> Ruling:
    at_floor = FLOOR * INPUT_TOKENS / 2 / tokens_per_s  # half of the input is shared and cached
    if at_floor > TTFT_S_MAX or INPUT_FLOOR / tokens_per_s > TTFT_S_MAX:
        why = "steps are full of prefill and the first token is late at the least load already"
        also = (_REWORK, _LIMITED, _INCOMPLETE)
        return Ruling(row=5, verdict=_SCALE, cause=Cause.CONCURRENCY, why=why, also=also)
    if INPUT_TARGET / tokens_per_s > TTFT_S_MAX or at_floor * 2 > TTFT_S_MAX:
        return _limited(Cause.CONCURRENCY, "the floor is held, the target's first tokens are late", _SCALE)
    return _go("prefill keeps up with the plan", _LIMITED, cause=Cause.CONCURRENCY)


def _errors(streams: float) -> Ruling:
    if streams < FLOOR:
        return _software(Cause.CONCURRENCY, "the server answers 500 at every load from the floor up, nothing exhausted")
    if streams < TARGET:
        also = (_REWORK,)
        return _limited(Cause.CONCURRENCY, "500 only above the floor: the floor is held", *also)
    return _go("that many requests are never open at once")


def _share(share: float, allowed: float, ruling: Ruling) -> Ruling:
    """A share of broken requests against the share that the plan allows."""
    if share >= 3 * allowed:
        return ruling
    if share <= allowed / 2:
        return _go("no more broken than the plan allows", _LIMITED, _INCOMPLETE, cause=ruling.cause)
    also = (_GO, _LIMITED, _INCOMPLETE)
    return Ruling(row=ruling.row, verdict=_REWORK, scope=ruling.scope, cause=ruling.cause, why=ruling.why, also=also)


def _agent(share: float, why: str) -> Ruling:
    return _share(share, AGENT_SHARE, _interface(Cause.MODEL_PARSER, why))


def _leak(share: float) -> Ruling:
    return _software(Cause.SUSTAINED, "KV of ended requests is never given back", _SCALE, _INCOMPLETE)


_RULINGS: dict[str, Callable[[float], Ruling]] = {
    "load-oom": lambda s: _launch(
        Cause.TOPOLOGY, "weights and layout do not fit a GPU as launched", _INCOMPLETE, _SCALE
    ),
    "load-kv-too-small": lambda s: _launch(
        Cause.TOPOLOGY, "the launch leaves less KV than one request of the window needs", _SCALE
    ),
    "load-shard-truncated": lambda s: Ruling(
        row=1, verdict=_REWORK, scope=Scope.HARDWARE, cause=Cause.TOPOLOGY, why="a checkpoint shard is cut short"
    ),
    "load-no-tool-parser": lambda s: _launch(
        Cause.MODEL_PARSER, "no tool-call parser: automatic tool choice is refused"
    ),
    "long-oom": lambda s: _long(
        s, _software(Cause.LONG_INPUT, "a long prompt kills the engine for lack of activation memory", _INCOMPLETE)
    ),
    "long-reject": _long_reject,
    "long-wrong": lambda s: _long(s, _software(Cause.LONG_INPUT, "long prompts get one repeated token with HTTP 200")),
    "long-hang": lambda s: _long(s, _software(Cause.LONG_INPUT, "a long prompt stops the engine at low KV use")),
    "conc-kv-small": _kv_small,
    "conc-slots": _slots,
    "conc-slow-prefill": _slow_prefill,
    "conc-errors": _errors,
    "soak-leak-kv": _leak,
    "soak-degrade": lambda s: _software(
        Cause.SUSTAINED, "steps grow slower with every request served", _LIMITED, _SCALE
    ),
    "soak-inband-error": lambda s: _share(
        s, ERROR_SHARE, _software(Cause.SUSTAINED, "streams end in an error event after HTTP 200")
    ),
    "soak-engine-death": lambda s: _software(Cause.SUSTAINED, "the engine dies of an illegal access while serving"),
    "soak-hang": lambda s: _software(Cause.SUSTAINED, "the engine stops stepping while health is green"),
    "soak-restart": lambda s: _software(Cause.SUSTAINED, "the process restarts while serving, unplanned"),
    "soak-foreign-traffic": lambda s: Ruling(
        row=6, verdict=_INCOMPLETE, cause=Cause.CLIENT, why="somebody else's requests are in every window"
    ),
    "client-resubmits": lambda s: Ruling(
        row=6, verdict=_INCOMPLETE, cause=Cause.CLIENT, why="a second caller's requests are in every window"
    ),
    "prefix-off": lambda s: _launch(Cause.PREFIX_CACHE, "the launch turns prefix caching off"),
    "prefix-silent-off": lambda s: _limited(Cause.PREFIX_CACHE, "caching is on by name, nothing hits, the load holds"),
    "prefix-nonce": lambda s: _limited(
        Cause.PREFIX_CACHE, "prompts are stamped at their head, so nothing hits", _REWORK
    ),
    "prefix-sparse": lambda s: _go(
        "the third request of a shared prefix hits, as this retention rule has it", _LIMITED
    ),
    "prefix-dead-counter": lambda s: Ruling(
        row=6,
        verdict=_INCOMPLETE,
        cause=Cause.PREFIX_CACHE,
        why="answers tell of hits, counters do not: no two witnesses",
        also=(_LIMITED,),
    ),
    "prefix-false-hit": lambda s: _software(
        Cause.PREFIX_CACHE, "hits are told for prompts that were never seen", _INCOMPLETE, _LIMITED
    ),
    "prefix-evict": lambda s: _limited(Cause.PREFIX_CACHE, "what was cached is evicted before it is asked for again"),
    "tool-markup-leak": lambda s: _agent(s, "the parser leaves the call's marks in content"),
    "tool-empty": lambda s: _agent(s, "finish reason tool_calls without a call"),
    "tool-in-reasoning": lambda s: _agent(s, "the call is lost in the reasoning field"),
    "tool-wrong-name": lambda s: _agent(s, "calls name a tool that was not offered"),
    "tool-none": lambda s: _agent(s, "words where a call was due"),
    "args-string": lambda s: _agent(s, "arguments decode to a string"),
    "args-missing": lambda s: _agent(s, "required arguments are missing"),
    "args-wrong-type": lambda s: _agent(s, "arguments have the wrong type"),
    "args-broken-json": lambda s: _agent(s, "arguments are not JSON"),
    "args-schema-broken": lambda s: _agent(s, "structured output breaks its schema"),
    "reasoning-leak": lambda s: _agent(s, "thoughts stand in content"),
    "reasoning-lost": lambda s: _agent(s, "the reasoning field is lost"),
    "gateway-drop-reasoning": lambda s: _interface(Cause.GATEWAY, "the gateway drops the reasoning field", _LIMITED),
    "gateway-drop-ids": lambda s: _interface(Cause.GATEWAY, "the gateway drops ids and names of calls"),
    "gateway-reencode": lambda s: _interface(Cause.GATEWAY, "the gateway encodes arguments twice"),
    "gateway-duplicate": lambda s: _interface(Cause.GATEWAY, "the gateway sends every request twice"),
    "gateway-cut": lambda s: _interface(Cause.GATEWAY, "the gateway ends streams early"),
    "retry-duplicate-effect": lambda s: _interface(
        Cause.GATEWAY, "a retry runs beside the request it replaces: the effect happens twice"
    ),
}


def truth(faults: Sequence[str]) -> Truth:
    """What an honest judge must come to; SignoffError for an unknown fault."""
    rulings = [_ruled(name, strength) for name, strength in strengths(faults).items()]
    first = min(rulings, key=lambda ruling: ruling.row, default=_go("nothing is wrong"))
    return Truth(verdict=first.verdict, also=first.also, scope=first.scope, cause=first.cause, why=first.why)


def _ruled(name: str, strength: float) -> Ruling:
    return ENVIRONMENT[name] if name in ENVIRONMENT else _RULINGS[name](strength)
