"""Exact token counts and ids, from the server's own `/tokenize`: no tokeniser of ours can be wrong about a template."""

from collections.abc import Callable
from typing import Any

import msgspec

from signoff.collect.control import Control

Message = dict[str, Any]


class _Tokens(msgspec.Struct):
    count: int
    tokens: list[int]


async def token_ids(
    control: Control,
    model: str,
    messages: list[Message],
    tools: list[dict[str, Any]] | None = None,
    template: dict[str, Any] | None = None,
) -> tuple[int, ...] | None:
    """The prompt's token ids as the server renders them, generation prompt included; `None` when it does not say.

    `template` are the request's `chat_template_kwargs`."""
    body: dict[str, Any] = {"model": model, "messages": messages, "add_generation_prompt": True}
    if tools:
        body["tools"] = tools
    if template:
        body["chat_template_kwargs"] = template
    answer = await control.post("/tokenize", msgspec.json.encode(body))
    if not answer.ok:
        return None
    try:
        return tuple(msgspec.json.decode(answer.body, type=_Tokens).tokens)
    except msgspec.DecodeError:
        return None


async def fit(
    control: Control,
    model: str,
    build: Callable[[int], list[Message]],
    tokens: int,
    tools: list[dict[str, Any]] | None = None,
    template: dict[str, Any] | None = None,
) -> tuple[list[Message], int | None]:
    """Messages from `build(words)` whose prompt has as close to `tokens` tokens as whole words allow, never more.

    Returns them with the count the server gave; `None` when it gives none, and then a guess of 2.2 tokens a word.
    """

    async def counted(size: int) -> int | None:
        ids = await token_ids(control, model, build(size), tools, template)
        return None if ids is None else len(ids)

    probe = await counted(64)
    if probe is None:
        return build(max(1, int(tokens / 2.2))), None
    rate = max(0.5, (probe - (await counted(0) or 0)) / 64)
    low, high = 0, max(8, int(tokens / rate * 1.3) + 16)
    size = max(0, int(tokens / rate) - 8)
    best, best_count = build(0), await counted(0)
    for _ in range(24):
        count = await counted(size)
        if count is None:
            break
        if count <= tokens:
            low = size
            if best_count is None or count >= best_count or best_count > tokens:
                best, best_count = build(size), count
        else:
            high = size
        if high - low <= 1 or count == tokens:
            break
        guess = size + int((tokens - count) / rate)
        size = guess if low < guess < high else (low + high) // 2
    return best, best_count
