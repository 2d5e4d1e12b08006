"""The words of the agent gate's findings; those of the five kinds of sample stand in `agent_kinds`."""

from signoff.core.words import Outcome
from signoff.judge.catalogue.agent_kinds import ENTRIES as KIND_ENTRIES
from signoff.judge.catalogue.entry import Entry

_LAUNCH_TOOLS = Entry(
    code="agent.launch.tools",
    title="Tools are taken by the launch",
    checked="Whether the server takes a request that declares tools and leaves the choice to the model.",
    matters="Without a tool-call parser in the launch the server refuses every such request, and no agent can work.",
    measured="One request with tools and tool choice auto; where it is refused, one more that demands a call.",
    changes="A launch with --enable-auto-tool-choice and the parser that the model's recipe names.",
    sentences={
        Outcome.PASS: "The server takes requests that declare tools (HTTP {status}).",
        Outcome.FAIL: "The server refuses requests that declare tools: HTTP {status}: {error}",
        Outcome.INCONCLUSIVE: "The request that declares tools got no answer that tells: {error}",
        Outcome.NOT_RUN: "Whether the server takes tools was not asked.",
    },
    next_step={
        Outcome.FAIL: "Start the server with --enable-auto-tool-choice and the recipe's --tool-call-parser.",
        Outcome.INCONCLUSIVE: "Look at the server's log for this request, then run the gate again.",
    },
)
_TEMPLATE_TOOLS = Entry(
    code="agent.template.tools",
    title="Declared tools reach the prompt",
    checked="Whether the prompt is longer with the tools of a sample than without them, nothing else changed.",
    matters="A chat template that drops tools makes every tool test measure nothing: the model never saw them.",
    measured="The server's own token counts: POST /tokenize, or usage of one-token answers where that is missing.",
    changes="A chat template or tokenizer mode that renders tools.",
    sentences={
        Outcome.PASS: "Tools reach the prompt: {tokens_with} tokens with, {tokens_without} without ({source}).",
        Outcome.FAIL: "Tools never reach the prompt: {tokens_with} tokens with, {tokens_without} without ({source}).",
        Outcome.INCONCLUSIVE: "The server gave no token counts with and without tools: {reason}.",
        Outcome.NOT_RUN: "Whether tools reach the prompt was not asked.",
    },
    next_step={
        Outcome.FAIL: "Launch with the chat template of the model's recipe (--chat-template) and run the gate again.",
        Outcome.INCONCLUSIVE: "Let /tokenize or usage answer, so that the prompt's length can be read.",
    },
)
_LANES = Entry(
    code="agent.lanes.agree",
    title="Streamed and whole answers agree",
    checked="Whether the same turns fail more often in one of the two lanes.",
    matters="Streaming has a parser of its own; faults that only streams show are missed by a single whole request.",
    measured="Fisher's exact test over all attempts and over each kind; a difference that chance makes in under 1 % "
    "of runs, shared among these questions, counts.",
    changes="A parser that gives both lanes the same calls, or more attempts.",
    sentences={
        Outcome.PASS: "No difference that these attempts can show: {streamed_failed} of {streamed} streamed and "
        "{whole_failed} of {whole} whole answers failed.",
        Outcome.FAIL: "The lanes differ ({where}, chance {chance}): {streamed_failed} of {streamed} streamed and "
        "{whole_failed} of {whole} whole answers failed.",
        Outcome.INCONCLUSIVE: "The lanes cannot be compared: {reason}.",
        Outcome.NOT_RUN: "No attempt was sent in either lane.",
    },
    next_step={
        Outcome.FAIL: "Let callers use the lane that works, and look at the parser of the other one.",
        Outcome.INCONCLUSIVE: "Run both lanes.",
    },
)
_SEPARATE = Entry(
    code="agent.reasoning.separate",
    title="Reasoning and control text stay in their places",
    checked="Whether control text of the chat format shows in content, reasoning, names or arguments, and whether "
    "thoughts come in the reasoning field where the profile has a reasoning parser.",
    matters="Leaked marks break callers and show users what they must not see; lost reasoning spoils the next turn.",
    measured="Every kept body of the direct lanes is read again; reasoning tokens of usage are held against the field.",
    changes="A parser that consumes every mark and fills the reasoning field, in every one of these answers.",
    sentences={
        Outcome.PASS: "None of {answers} answers shows control text, and reasoning stands in its field.",
        Outcome.FAIL: "{leaked} of {answers} answers show control text ({places}; first: {marker}); reasoning was lost "
        "or stood in content in {lost} of {thinking_answers} answers with thinking on.",
        Outcome.INCONCLUSIVE: "Whether reasoning is kept apart cannot be told: {reason}.",
        Outcome.NOT_RUN: "No answer was kept to look at.",
    },
    next_step={
        Outcome.FAIL: "Check --reasoning-parser and the parser's version against the recipe; filter marks.",
        Outcome.INCONCLUSIVE: "Run more attempts with thinking on.",
    },
)
_GATEWAY_SAID = Entry(
    code="agent.gateway.said",
    title="The plan says whether there is a gateway",
    checked="service.gateway_url of the plan.",
    matters="A gateway that nobody named is not tested, and faults of it would be blamed on the model.",
    measured="Read from the plan.",
    changes="A URL, or none, in service.gateway_url.",
    sentences={
        Outcome.PASS: "Callers reach the service through {gateway_url}.",
        Outcome.INCONCLUSIVE: "The plan does not say whether callers reach the service through a gateway.",
        Outcome.NOT_APPLICABLE: "The plan says that there is no gateway.",
    },
    next_step={Outcome.INCONCLUSIVE: "Write the gateway's URL into service.gateway_url, or none."},
)
_GATEWAY_INTACT = Entry(
    code="agent.gateway.intact",
    title="Answers come through the gateway whole",
    checked="Whether answers through the gateway fail, or lose their reasoning, more often than direct ones.",
    matters="A gateway can drop ids, names or reasoning, encode arguments twice or cut streams, all with HTTP 200.",
    measured="The same samples both ways, compared by meaning with Fisher's exact test; a renamed field is no loss.",
    changes="A gateway that hands on every field unchanged.",
    sentences={
        Outcome.PASS: "Nothing was lost that these attempts can show: {failed} of {attempts} failed through it, "
        "{direct_failed} of {direct_attempts} without it.",
        Outcome.FAIL: "The gateway loses {lost}: {failed} of {attempts} failed through it, {direct_failed} of "
        "{direct_attempts} without it; without reasoning {without_reasoning} against {direct_without_reasoning}.",
        Outcome.INCONCLUSIVE: "The gateway cannot be compared: {reason}.",
        Outcome.NOT_RUN: "Nothing was sent through a gateway.",
        Outcome.NOT_APPLICABLE: "The plan says that there is no gateway.",
    },
    next_step={
        Outcome.FAIL: "Mend the gateway's conversion, or send agent traffic past it; then run the gate again.",
        Outcome.INCONCLUSIVE: "Run the gate with the gateway and the direct lanes.",
    },
)
_EFFECTS = Entry(
    code="agent.effects.once",
    title="One intent has one effect",
    checked="Whether a call is carried out twice for one intent.",
    matters="A message sent or an order placed twice cannot be taken back by any retry rule.",
    measured="A small tool loop with a ledger: every intent is asked once, each call that comes is carried out, the "
    "result is handed back; what the raw answers do not bear out is not counted.",
    changes="Answers that hold each call once and do not call again what has its result.",
    sentences={
        Outcome.PASS: "{executed} of {intents} intents were carried out, each once.",
        Outcome.FAIL: "{repeated} calls came again for an intent already carried out, for instance {example}.",
        Outcome.INCONCLUSIVE: "{executed} of {intents} intents were seen carried out; whether each once, cannot be "
        "told: {reason}.",
        Outcome.NOT_RUN: "The tool loop was not run.",
    },
    next_step={
        Outcome.FAIL: "Give tools a key by which they refuse what they did; look at how results are rendered.",
        Outcome.INCONCLUSIVE: "Run again, and keep ledger and answers; give a service on which calls come.",
    },
)
_GATEWAY_ONCE = Entry(
    code="agent.gateway.once",
    title="The gateway sends each request once",
    checked="Whether more requests reach the server than were sent to the gateway.",
    matters="A request that is sent twice costs twice, and what it makes a tool do may happen twice.",
    measured="The server's count of finished requests before and after the gateway lane, believed only when the same "
    "count was exact for the direct lanes, where nobody else could have sent.",
    changes="A gateway that does not send again what may have begun.",
    sentences={
        Outcome.PASS: "{sent} requests were sent to the gateway, {arrived} reached the server.",
        Outcome.FAIL: "{sent} requests were sent to the gateway, {arrived} reached the server.",
        Outcome.INCONCLUSIVE: "How many requests the gateway sent cannot be told: {reason}.",
        Outcome.NOT_RUN: "Nothing was sent through a gateway.",
        Outcome.NOT_APPLICABLE: "The plan says that there is no gateway.",
    },
    next_step={
        Outcome.FAIL: "Turn off the gateway's retries and shadow traffic for requests that may have begun.",
        Outcome.INCONCLUSIVE: "Run against a server that nobody else uses and whose counters can be read.",
    },
)
ENTRIES: tuple[Entry, ...] = (
    _LAUNCH_TOOLS,
    _TEMPLATE_TOOLS,
    *KIND_ENTRIES,
    _LANES,
    _SEPARATE,
    _GATEWAY_SAID,
    _GATEWAY_INTACT,
    _GATEWAY_ONCE,
    _EFFECTS,
)
