"""What the model and the interface layer say wrong, read from the faults that are on.

Each fault draws by request id from its own seeded stream, so that a run with the same ids fails in the same places.
"""

from typing import Any

import msgspec
import numpy as np

from signoff.core.workload import nonce, rng
from signoff.sim.model import Call, Question, Thought, Token, markup_of
from signoff.sim.settings import Settings
from signoff.sim.template import call_ids, closed, opened
from signoff.sim.tokens import Ids, encode, raw_of

REPEATED = " the" * 64


class AnswerFaults:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.faults = settings.faults
        self._taken = 0

    def _strikes(self, fault: str, request_id: str) -> bool:
        """Whether a fault whose strength is a share hits this request."""
        share = self.faults.get(fault)
        return share is not None and rng(fault, self.settings.seed, request_id).random() < share

    def refuses(self, open_requests: int) -> bool:
        """Whether this request gets a 500 at the door."""
        limit = self.faults.get("conc-errors")
        return limit is not None and open_requests >= limit

    def breaks_after(self, streamed: bool) -> int | None:
        """Tokens after which this stream ends in an error event; `None`: it does not."""
        self._taken += 1
        share = self.faults.get("soak-inband-error")
        if share is None or not streamed:
            return None
        draw = rng("inband", self.settings.seed, self._taken)
        return draw.randint(2, 6) if draw.random() < share else None

    def cached_as(self, prompt: Ids, count: int) -> Ids:
        """The prompt as the prefix cache is shown it."""
        if "prefix-silent-off" not in self.faults:
            return prompt
        changed = prompt.copy()
        changed[:1] = -count
        return changed

    def headed(self, prompt: Ids, count: int) -> Ids:
        """The prompt as it reaches the engine: with a stamp before it when something puts one there."""
        if "prefix-nonce" not in self.faults:
            return prompt
        stamp = encode(f"request {nonce('stamp', self.settings.seed, count)}\n")
        return np.concatenate([prompt[:1], stamp, prompt[1:]])

    def thought(self, thought: Thought, question: Question, request_id: str, prompt_tokens: int) -> Thought:
        """What the model means to say, broken as the faults say."""
        limit = self.faults.get("long-wrong")
        if limit is not None and prompt_tokens > limit:
            return Thought(content=REPEATED)
        for fault, change in _ON_CALLS.items():
            if thought.calls and self._strikes(fault, request_id):
                change(thought, question)
        if thought.asked_json and self._strikes("args-schema-broken", request_id):
            thought.content = _schema_broken(thought.content)
        if thought.reasoning and self._strikes("reasoning-leak", request_id):
            between = b"".join(raw_of(n) for n in closed("think") + opened("response")).decode()
            thought.content, thought.reasoning = thought.reasoning + between + thought.content, ""
        return thought

    def tokens(self, tokens: list[Token], request_id: str) -> list[Token]:
        """The tokens, broken as the faults of the interface layer say."""
        if self._strikes("reasoning-lost", request_id):
            for token in tokens:
                if token.field == "reasoning":
                    token.field = ""
        return tokens


def _markup(thought: Thought) -> str:
    """The calls as raw control marks."""
    ids = opened("tools")
    for index, call in enumerate(thought.calls):
        ids += call_ids(call.name, call.written, index + 1)
    return markup_of([Token(id=number) for number in ids + closed("tools")])


def _silence(thought: Thought, *, content: str = "", finish: str = "stop") -> None:
    thought.calls, thought.content, thought.finish = [], content, finish


def _leak(thought: Thought, question: Question) -> None:
    _silence(thought, content=_markup(thought))


def _empty(thought: Thought, question: Question) -> None:
    _silence(thought, finish="tool_calls")


def _in_reasoning(thought: Thought, question: Question) -> None:
    thought.reasoning += " " + _markup(thought)
    _silence(thought)


def _in_words(thought: Thought, question: Question) -> None:
    _silence(thought, content="This can be looked up. I shall do that as soon as I can.")


def _wrong_name(thought: Thought, question: Question) -> None:
    for call in thought.calls:
        call.name += "_v2"


def _rewrite(call: Call, written: dict[str, Any]) -> None:
    call.written, call.arguments = written, msgspec.json.encode(written).decode()


def _string(thought: Thought, question: Question) -> None:
    for call in thought.calls:
        call.arguments = msgspec.json.encode(call.arguments).decode()


def _missing(thought: Thought, question: Question) -> None:
    for call in thought.calls:
        gone = next(iter(_required(question, call)), next(iter(call.written), ""))
        _rewrite(call, {name: value for name, value in call.written.items() if name != gone})


def _wrong_type(thought: Thought, question: Question) -> None:
    for call in thought.calls:
        name = next(iter(call.written), "")
        if name:
            _rewrite(call, call.written | {name: [call.written[name]]})


def _broken_json(thought: Thought, question: Question) -> None:
    for call in thought.calls:
        call.arguments = call.arguments[:-1]


def _required(question: Question, call: Call) -> list[str]:
    for tool in question.tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("name") == call.name:
            schema = function.get("parameters")
            names = schema.get("required") if isinstance(schema, dict) else None
            return [n for n in names if n in call.written] if isinstance(names, list) else []
    return []


def _schema_broken(content: str) -> str:
    """JSON still, and against its schema: the first key is gone, and a stranger has come."""
    made = msgspec.json.decode(content)
    if not isinstance(made, dict):
        return "null"
    kept = dict(list(made.items())[1:])
    return msgspec.json.encode(kept | {"unexpected_field": [1, 2]}).decode()


_ON_CALLS = {
    "tool-markup-leak": _leak,
    "tool-empty": _empty,
    "tool-in-reasoning": _in_reasoning,
    "tool-none": _in_words,
    "tool-wrong-name": _wrong_name,
    "args-missing": _missing,
    "args-wrong-type": _wrong_type,
    "args-string": _string,
    "args-broken-json": _broken_json,
}
