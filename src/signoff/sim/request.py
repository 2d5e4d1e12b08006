"""Requests as the server takes them: decoded, validated with vLLM's words, rendered to token ids."""

from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from signoff.sim.model import Question, question_text
from signoff.sim.settings import Settings
from signoff.sim.template import render
from signoff.sim.tokens import Ids, decode, encode

Body = dict[str, Any]
CHARACTERS_A_TOKEN = 81
"""The longest token of the vocabulary: more characters than this a token cannot fit the window."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
K3_EFFORTS = ("none", "low", "high", "max")


class Refusal(Exception):
    """An error answer. `kind` is the body's `type`."""

    def __init__(
        self, message: str, param: str | None = None, status: int = 400, kind: str = "BadRequestError"
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.status, self.kind = message, param, status, kind

    def body(self) -> bytes:
        told = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": told})


class Asked(Struct, kw_only=True):
    """One request, ready for the engine; `prompts` has one entry a prompt, each answered `n` times."""

    chat: bool
    prompts: list[Ids]
    questions: list[Question]
    n: int = 1
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False
    return_ids: bool = False
    salt: str = ""
    max_tokens: int | None = None
    tools: bool = False
    skip_reading: bool = False
    """`prompt_logprobs`: the prefix cache is not read."""


def wrong(field: str, kind: str, says: str, given: Any, **context: Any) -> Refusal:
    """A validation error of the request model."""
    return wrongs((field,), kind, says, given, **context)


def wrongs(fields: tuple[str, ...], kind: str, says: str, given: Any, **context: Any) -> Refusal:
    """The same validation error of several fields."""
    shown = f"<dict of {len(given)} items>" if isinstance(given, dict) else given
    details = [
        {"type": kind, "loc": f"body.{field}", "msg": says, "input": shown} | ({"ctx": context} if context else {})
        for field in fields
    ]
    lines = "".join(f"\n  {detail}" for detail in details)
    count = f"{len(details)} validation error" + ("s" if len(details) > 1 else "")
    return Refusal(f"{count}:{lines}", f"body.{fields[0]}", kind="Bad Request")


def body_of(raw: bytes) -> Body:
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise wrong(str(len(raw)), "json_invalid", "JSON decode error", {}, error="Expecting value") from None
    if not isinstance(body, dict):
        raise wrong("", "model_attributes_type", "Input should be a valid dictionary or object", body)
    return body


def check_model(body: Body, settings: Settings) -> None:
    model = body.get("model")
    if model is not None and model != settings.model:
        says = f"The model `{model}` does not exist. Valid aliases: {settings.model}."
        raise Refusal(says, "model", 404, "NotFoundError")


def chat_prompt(body: Body, settings: Settings, *, generate: bool = True) -> Ids:
    """The rendered prompt of a chat body."""
    messages = body.get("messages")
    if messages is None:
        raise wrong("messages", "missing", "Field required", body)
    if not isinstance(messages, list):
        raise wrong("messages", "list_type", "Input should be a valid list", messages)
    if not messages:
        raise Refusal("Cannot apply chat template to an empty conversation. Provide at least one message.")
    if not all(isinstance(message, dict) for message in messages):
        raise wrong("messages.0", "model_attributes_type", "Input should be a valid dictionary", messages[0])
    tools = body.get("tools")
    told = tools if isinstance(tools, list) and tools else None
    characters = sum(len(m["content"]) for m in messages if isinstance(m.get("content"), str))
    most = settings.window * CHARACTERS_A_TOKEN
    if characters > most:
        raise Refusal(
            f"This model's maximum context length is {settings.window} tokens. However, your prompt contains "
            f"{characters} characters (more than {most} characters, which is the upper bound for {settings.window} "
            f"input tokens). Please reduce the length of the input prompt. (parameter=input_text, value={characters})",
            "input_text",
        )
    return render(messages, told, thinking=_thinking(body, settings), generate=generate)


def asked_chat(raw: bytes, settings: Settings, seed: tuple[object, ...]) -> Asked:
    """A body of `/v1/chat/completions`; raises `Refusal`."""
    body = body_of(raw)
    if "messages" not in body:
        raise wrong("messages", "missing", "Field required", body)
    effort = _effort(body, settings)
    choice = _tool_choice(body, settings)
    schema, json_object = _format(body)
    _check_common(body)
    check_model(body, settings)
    prompt = chat_prompt(body, settings)
    wanted = body.get("max_completion_tokens") or body.get("max_tokens")
    max_tokens = _room(wanted, prompt, settings, "at least ")
    text, result, whole = question_text(body["messages"])
    tools = tuple(t for t in body.get("tools") or [] if isinstance(t, dict))
    question = Question(
        text=text,
        whole=whole,
        tool_result=result,
        tools=tools,
        tool_choice=choice,
        schema=schema,
        json_object=json_object,
        thinking=_thinking(body, settings),
        effort=effort,
        max_tokens=None if wanted is None else max_tokens,
        ignore_eos=body.get("ignore_eos") is True,
        stops=_stops(body),
        seed=seed,
    )
    return _asked(body, chat=True, prompts=[prompt], questions=[question], max_tokens=max_tokens, tools=bool(tools))


def asked_completion(raw: bytes, settings: Settings, seed: tuple[object, ...]) -> Asked:
    """A body of `/v1/completions`, prompt as text, token ids, or lists of either; raises `Refusal`."""
    body = body_of(raw)
    _check_common(body)
    check_model(body, settings)
    prompts = completion_prompts(body.get("prompt"), body)
    questions = []
    wanted = body.get("max_tokens", 16)
    max_tokens = None
    for prompt in prompts:
        max_tokens = _room(wanted, prompt, settings, "")
        text = decode(prompt)
        questions.append(
            Question(
                text=text,
                whole=text,
                thinking=False,
                max_tokens=max_tokens,
                ignore_eos=body.get("ignore_eos") is True,
                stops=_stops(body),
                chat=False,
                seed=seed,
            )
        )
    return _asked(body, chat=False, prompts=prompts, questions=questions, max_tokens=max_tokens, tools=False)


def completion_prompts(prompt: Any, body: Body) -> list[Ids]:
    if isinstance(prompt, str):
        return [encode(prompt)]
    if isinstance(prompt, list) and prompt:
        if all(type(number) is int for number in prompt):
            return [np.array(prompt, dtype=np.int64)]
        if all(isinstance(inner, str | list) for inner in prompt):
            return [ids for inner in prompt for ids in completion_prompts(inner, body)]
    raise Refusal("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")


def _asked(
    body: Body, *, chat: bool, prompts: list[Ids], questions: list[Question], max_tokens: int | None, tools: bool
) -> Asked:
    options = body.get("stream_options")
    options = options if isinstance(options, dict) else {}
    n = body.get("n")
    return Asked(
        chat=chat,
        prompts=prompts,
        questions=questions,
        n=n if isinstance(n, int) and n > 0 else 1,
        stream=body.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        continuous_usage=options.get("include_usage") is True and options.get("continuous_usage_stats") is True,
        return_ids=body.get("return_token_ids") is True,
        salt=str(body.get("cache_salt") or ""),
        max_tokens=max_tokens,
        tools=tools,
        skip_reading=body.get("prompt_logprobs") is not None,
    )


def _thinking(body: Body, settings: Settings) -> bool:
    options = body.get("chat_template_kwargs")
    options = options if isinstance(options, dict) else {}
    off = options.get("thinking") is False or options.get("enable_thinking") is False
    return settings.thinking and not off and body.get("reasoning_effort") != "none"


def _effort(body: Body, settings: Settings) -> str:
    effort = body.get("reasoning_effort")
    if effort is None:
        return "high"
    if effort not in EFFORTS:
        expected = "'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'"
        raise wrong("reasoning_effort", "literal_error", f"Input should be {expected}", effort, expected=expected)
    if effort not in K3_EFFORTS and settings.reasoning_parser == "kimi_k3":
        says = "Kimi K3 supports thinking_effort values: high, low, max"
        raise Refusal(f"{says} (parameter=thinking_effort, value={effort})", "thinking_effort")
    return str(effort)


def _tool_choice(body: Body, settings: Settings) -> str:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if isinstance(tools, list) and not tools:
        raise Refusal(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. "
            "(parameter=tools)",
            "tools",
        )
    if not tools:
        if choice is not None and choice != "none":
            raise Refusal("When using `tool_choice`, `tools` must be set. (parameter=tool_choice)", "tool_choice")
        return "none"
    if not isinstance(tools, list):
        raise wrong("tools", "list_type", "Input should be a valid list", tools)
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if name not in [t["function"].get("name") for t in tools if isinstance(t.get("function"), dict)]:
            raise Refusal(
                "The tool specified in `tool_choice` does not match any of the specified `tools` "
                "(parameter=tool_choice)",
                "tool_choice",
            )
        return f"={name}"
    if choice in (None, "auto"):
        if settings.tool_parser is None:
            raise Refusal('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
        return "auto"
    if choice in ("required", "none"):
        return str(choice)
    raise Refusal(f"Invalid value for `tool_choice`: {choice}! (parameter=tool_choice)", "tool_choice")


def _format(body: Body) -> tuple[dict[str, Any] | None, bool]:
    """The JSON schema that is asked for, and whether any JSON object is."""
    asked = body.get("response_format")
    asked = asked if isinstance(asked, dict) else {}
    if asked.get("type") == "json_schema":
        inner = asked.get("json_schema")
        if not isinstance(inner, dict):
            raise Refusal(
                "When response_format type is 'json_schema', the 'json_schema' field must be provided. "
                "(parameter=response_format)",
                "response_format",
            )
        schema = inner.get("schema")
        return (schema if isinstance(schema, dict) else {}), False
    structured = body.get("structured_outputs")
    if isinstance(structured, dict) and isinstance(structured.get("json"), dict):
        return structured["json"], False
    return None, asked.get("type") == "json_object"


def _check_common(body: Body) -> None:
    for name in ("max_tokens", "max_completion_tokens", "n"):
        value = body.get(name)
        if value is not None and type(value) is not int:
            says = "Input should be a valid integer, unable to parse string as an integer"
            raise wrong(name, "int_parsing", says, value)
        if value is not None and value < 1:
            shown = "max_tokens" if name != "n" else "n"
            raise Refusal(f"{shown} must be at least 1, got {value}. (parameter={shown}, value={value})", shown)
    temperature = body.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        value = float(temperature)
        says = f"temperature must be non-negative, got {value}. (parameter=temperature, value={value})"
        raise Refusal(says, "temperature")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        says = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise Refusal(says, "stream_options")
    salt = body.get("cache_salt")
    if salt is not None:
        if not isinstance(salt, str) or not salt:
            says = "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)"
            raise Refusal(says, "cache_salt")
        if len(salt) > 128 or set(salt) & set("@/\\\0"):
            raise Refusal(
                "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL. "
                "(parameter=cache_salt)",
                "cache_salt",
            )


def _room(wanted: int | None, prompt: Ids, settings: Settings, about: str) -> int:
    """How many tokens may be generated."""
    window, tokens = settings.window, len(prompt)
    if wanted is not None and wanted > window:
        raise Refusal(
            f"max_tokens={wanted} cannot be greater than max_model_len={window}. Please request fewer output tokens. "
            f"(parameter=max_tokens, value={wanted})",
            "max_tokens",
        )
    if tokens >= window:
        shown = window + 1 if about else tokens  # the server stops counting one beyond the window when it renders
        raise Refusal(
            f"This model's maximum context length is {window} tokens. However, your prompt contains {about}{shown} "
            "input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "
            f"input prompt. (parameter=input_tokens, value={shown})",
            "input_tokens",
        )
    return min(wanted, window - tokens) if wanted is not None else window - tokens


def _stops(body: Body) -> tuple[str, ...]:
    stop = body.get("stop")
    return (stop,) if isinstance(stop, str) else tuple(s for s in stop if isinstance(s, str)) if stop else ()
