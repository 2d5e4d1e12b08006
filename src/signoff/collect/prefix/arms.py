"""The arms of a round: what is sent, in which order. Pure; the texts come from seeds alone.

cold      a fresh nonce at the very start of the system message
warm      the cold prompt, only the last question changed; three of them, each with its own question
replay    the cold prompt again, byte for byte
control   head: a new nonce, and another value to recall, so that an answer out of the old prefix shows
          tools: the cold messages with a tool schema
          salt: the cold prompt under another `cache_salt`
gateway   the cold prompt again, through the gateway where there is one
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from signoff.core.workload import nonce, rng, words

WARM_QUESTIONS = 3
"""Under sparse retention the first different question may miss lawfully; from the second on it must hit."""
OUTPUT_TOKENS = 16
OUTPUT_TOKENS_THINKING = 96
"""A model that thinks first must come to the answer too."""
OUTPUT_TOKENS_HELD = 64
CONTROLS = ("head", "tools", "salt")


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompts of one round have in common."""

    run_id: str
    number: int
    """From 0."""
    words: int
    """Filler words in the system message; they set the prompt's length."""
    gateway: bool = False

    @property
    def seed(self) -> tuple[str, str, int]:
        return (self.run_id, "prefix", self.number)


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt of a round."""

    name: str
    """`cold`, `warm`, `replay`, `control` or `gateway`."""
    labels: dict[str, str] = {}
    """`warm_index` 1 to 3 or `control`, and `needle`: the value that a right answer holds."""
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    salt: str = ""


def round_arms(this: Round) -> list[Arm]:
    """The arms of a round in the order of sending: cold first, then the rest in a seeded random order.

    The warm questions keep their order among themselves."""
    system, needle = system_text(this), needle_of(*this.seed)
    cold = Arm(name="cold", messages=_messages(system, this, "cold"), labels={"needle": needle})
    rest = ["warm"] * WARM_QUESTIONS + ["replay", *CONTROLS, *(["gateway"] if this.gateway else [])]
    rng(*this.seed, "order").shuffle(rest)
    arms, asked = [cold], 0
    for name in rest:
        if name == "warm":
            asked += 1
            messages = _messages(system, this, f"warm {asked}")
            arms.append(Arm(name="warm", messages=messages, labels={"warm_index": str(asked), "needle": needle}))
        elif name in ("replay", "gateway"):
            arms.append(Arm(name=name, messages=cold.messages, labels={"needle": needle}))
        else:
            arms.append(_control(this, name, cold))
    return arms


def _control(this: Round, control: str, cold: Arm) -> Arm:
    labels = {"control": control, "needle": cold.labels["needle"]}
    if control == "tools":
        return Arm(name="control", labels=labels, messages=cold.messages, tools=(_tool(this),))
    if control == "salt":
        return Arm(name="control", labels=labels, messages=cold.messages, salt=nonce(*this.seed, "salt"))
    labels["needle"] = needle_of(*this.seed, "head")
    changed = system_text(this, "head")
    return Arm(name="control", labels=labels, messages=_messages(changed, this, "cold"))


def system_text(this: Round, variant: str = "") -> str:
    """The system message: nonce first, filler, the note to recall in the middle of it, filler."""
    mark = (variant,) if variant else ()
    half = this.words // 2
    name, value = needle_name(this), needle_of(*this.seed, *mark)
    before = words(half, *this.seed, "before") if half else ""
    after = words(this.words - half, *this.seed, "after") if this.words - half else ""
    return (
        f"{nonce(*this.seed, 'cold', *mark)} You keep the records of a small town and answer from them. "
        f"{before} Note: the value of {name} is {value}. {after}"
    )


def needle_name(this: Round) -> str:
    """One word without blanks, met nowhere else in the prompt."""
    return words(2, *this.seed, "name").rstrip(".").replace(" ", "-") + "-register"


def needle_of(*seed: object) -> str:
    """Five digits that only the prompt can tell."""
    return str(rng(*seed, "needle").randint(10_000, 99_999))


def _messages(system: str, this: Round, question: str) -> tuple[dict[str, Any], ...]:
    lead = words(5, *this.seed, "question", question)
    asked = f"{lead} What is the value of {needle_name(this)}? Answer with the value only."
    return ({"role": "system", "content": system}, {"role": "user", "content": asked})


def _tool(this: Round) -> dict[str, Any]:
    """A tool whose schema no other round has."""
    return {
        "type": "function",
        "function": {
            "name": "look_up_" + nonce(*this.seed, "tool")[:6],
            "description": "Looks up one register. " + words(12, *this.seed, "tool"),
            "parameters": {
                "type": "object",
                "properties": {"register": {"type": "string"}},
                "required": ["register"],
            },
        },
    }


def warmup_messages(run_id: str, words_count: int, number: int = 0) -> tuple[dict[str, Any], ...]:
    """A prompt of its own, so that lazy series exist and lazy kernels are built before anything is measured."""
    return ladder_messages(run_id, words_count, 1000 + number)


def ladder_messages(run_id: str, words_count: int, number: int) -> tuple[dict[str, Any], ...]:
    """A prompt of about `words_count` words for measuring the alignment unit; sent twice, byte for byte."""
    head = nonce(run_id, "prefix", "ladder", number)
    return ({"role": "user", "content": f"{head} {words(words_count, run_id, 'ladder', number)} Say yes."},)


def template_of(thinking_efforts: Sequence[str]) -> dict[str, Any]:
    """`chat_template_kwargs` that turn thinking off where the model can: the answer is what is wanted, at once."""
    return {"thinking": False} if "none" in thinking_efforts else {}


def echo_body(arm: Arm, model: str, template: Mapping[str, Any]) -> bytes:
    """The body of a request whose answer tells the prompt's token ids as the server rendered them, where it can."""
    return msgspec.json.encode(
        {
            "model": model,
            "messages": list(arm.messages),
            "max_tokens": 1,
            "temperature": 0,
            "return_token_ids": True,
        }
        | _told(template)
    )


def _told(template: Mapping[str, Any]) -> dict[str, Any]:
    return {"chat_template_kwargs": dict(template)} if template else {}


def held_body(arm: Arm, model: str, template: Mapping[str, Any]) -> bytes:
    """The body of a request that holds its blocks for a while: it goes on to the asked length."""
    body = msgspec.json.decode(body_of(arm, model, OUTPUT_TOKENS_HELD, template))
    return msgspec.json.encode(body | {"ignore_eos": True})


def body_of(arm: Arm, model: str, output_tokens: int, template: Mapping[str, Any]) -> bytes:
    """The request body; greedy, streamed, usage asked for."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(arm.messages),
        "max_tokens": output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    } | _told(template)
    if arm.tools:
        body["tools"] = list(arm.tools)
        body["tool_choice"] = "none"
    if arm.salt:
        body["cache_salt"] = arm.salt
    return msgspec.json.encode(body)
