"""Do declared tools reach the prompt? Counted by the server itself, once with them and once without."""

from typing import Any

import msgspec

from signoff.collect.control import Answer, Control
from signoff.core.evidence import Evidence
from signoff.core.protocols import Clock, Store
from signoff.core.record import Request
from signoff.core.sample import Pack, Sample, tail_nonce, tool_json, with_nonce
from signoff.core.words import Gate

STAGE = "agent.template"


def probe_sample(pack: Pack) -> Sample | None:
    """The sample that the template and parser probes use: the first of kind one_tool."""
    return next(iter(pack.of_kind("one_tool")), None)


def tools_of(pack: Pack, sample: Sample) -> list[dict[str, Any]]:
    return [tool_json(tool) for name in sample.tools if (tool := pack.tool(name)) is not None]


async def tokenize_tools(
    control: Control, store: Store, clock: Clock, model: str, pack: Pack, sample: Sample
) -> list[Evidence]:
    """Two cards of kind `tokenize`, conditions what=tools and tools=with|without: the body, or why there is none."""
    cards = []
    for tools in ("with", "without"):
        body: dict[str, Any] = {"model": model, "messages": list(sample.messages), "add_generation_prompt": True}
        if tools == "with":
            body["tools"] = tools_of(pack, sample)
        answer = await control.post("/tokenize", msgspec.json.encode(body), timeout_s=20.0)
        about: dict[str, Any] = {
            "kind": "tokenize",
            "source": "POST /tokenize",
            "where": control.base_url,
            "taken_ns": clock.now_ns(),
            "stage": STAGE,
            "conditions": {"what": "tools", "tools": tools, "sample": sample.id},
        }
        if answer.ok:
            cards.append(store.keep(answer.body, **about, media_type="application/json"))
        else:
            cards.append(store.miss(_why(answer), **about))
    return cards


def _why(answer: Answer) -> str:
    if answer.status is None:
        return answer.error
    return f"HTTP {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"


def probe_request(
    pack: Pack,
    sample: Sample,
    model: str,
    run_id: str,
    *,
    what: str,
    tools: bool,
    choice: str = "auto",
    tokens: int = 1,
) -> Request:
    """A short whole request in the template stage: for prompt counts from usage, and whether tools are taken at all."""
    id = f"{run_id}-agent-template-{what}"
    body: dict[str, Any] = {
        "model": model,
        "messages": with_nonce(sample.messages, tail_nonce(run_id, "template")),
        "max_tokens": tokens,
    }
    if tools:
        body |= {"tools": tools_of(pack, sample), "tool_choice": choice}
    return Request(
        id=id,
        gate=Gate.AGENT,
        stage=STAGE,
        body=msgspec.json.encode(body),
        stream=False,
        labels={"what": what, "sample": sample.id, "tools": "with" if tools else "without"},
        keep=True,
        deadline_s=120.0,
        silence_s=60.0,
    )
