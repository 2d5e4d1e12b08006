"""The words of the five failure rates of the agent gate."""

from signoff.core.words import Outcome
from signoff.judge.catalogue.entry import Entry

_MEASURED = (
    "Fixed samples, streamed and whole, some alone, the rest together, each with a fresh end. Raw bodies are kept and "
    "judged again. The rate is looked at only at sizes fixed beforehand; the error that the plan allows is shared "
    "equally among the looks, and the exact interval of each look is that much wider."
)
_SEEN = "{failed} of {attempts} failed ({share_low:.1%} to {share_high:.1%})"
_SENTENCES = {
    Outcome.PASS: f"{_SEEN}: proved at or under the limit of {{failure_rate:.1%}}.",
    Outcome.FAIL: f"{_SEEN}, above the limit of {{failure_rate:.1%}}; mostly {{worst}} ({{side}}): {{detail}}. "
    "As it came: {example}",
    Outcome.INCONCLUSIVE: "{failed} of {attempts} failed; not decided: {reason}.",
    Outcome.NOT_RUN: "No attempt of this kind was sent.",
}


def _kind(code: str, title: str, checked: str, matters: str, mend: str) -> Entry:
    return Entry(
        code=code,
        title=title,
        checked=checked,
        matters=matters,
        measured=_MEASURED,
        changes="A rate whose interval lies at or under agent.failure_rate.limit, by more attempts or fewer failures.",
        sentences=_SENTENCES,
        next_step={
            Outcome.FAIL: mend,
            Outcome.INCONCLUSIVE: "Give agent.failure_rate a limit, and an attempts_max that can prove it.",
        },
    )


ENTRIES: tuple[Entry, ...] = (
    _kind(
        "agent.one_tool.rate",
        "One tool, one turn",
        "Whether a call of the one offered tool comes, with an id, and arguments that are valid and right.",
        "It is the least that an agent needs.",
        "Compare the raw body with the parser of the recipe; validate arguments and retry at the caller.",
    ),
    _kind(
        "agent.choose_tool.rate",
        "The right tool among several",
        "Whether the right tool is called of several that are offered, and none where none is needed.",
        "A wrong tool does the wrong thing without any error.",
        "Sharpen tool names and descriptions, or ask for a call by name where it is known.",
    ),
    _kind(
        "agent.second_turn.rate",
        "A second turn after a tool result",
        "Whether the answer after a tool result uses it, and a later question gets its own call.",
        "Agents live on turns; a template that loses results makes them loop.",
        "Look at how the chat template renders tool results and earlier calls.",
    ),
    _kind(
        "agent.structured.rate",
        "Structured output by JSON schema",
        "Whether the content is JSON, valid under the schema asked for, and holds the right values.",
        "Programs read it without a person between.",
        "Check the structured-output backend of the launch; validate and retry at the caller.",
    ),
    _kind(
        "agent.fallback.rate",
        "A tool that fails is not talked over",
        "Whether an error, a timeout, an empty or a malformed tool result is named, or the tool tried again, and no "
        "success is invented.",
        "An invented result is worse than none.",
        "Give failed tools a plain error text, and check answers against tool results at the caller.",
    ),
)
