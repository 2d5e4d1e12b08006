"""The simulated gateway: a proxy before the service that changes nothing, unless a fault says so."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec

from signoff.sim.http1 import Incoming, Reply
from signoff.sim.settings import Settings

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "trailer", "upgrade", "expect"}
COMPLETIONS = {"/v1/chat/completions", "/v1/completions"}
Edit = Callable[[dict[str, Any]], None]


class Gateway:
    """Forwards to `upstream`; `start` before use, `stop` after."""

    def __init__(self, settings: Settings, upstream: str) -> None:
        self.faults = settings.faults
        self.upstream = upstream
        self._session: aiohttp.ClientSession | None = None
        self._edits: list[Edit] = [edit for name, edit in EDITS.items() if name in self.faults]
        self._beside: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)

    async def stop(self) -> None:
        for task in list(self._beside):
            task.cancel()
        if self._session is not None:
            await self._session.close()

    async def handle(self, incoming: Incoming, reply: Reply) -> None:
        """One request through; 502 when the service cannot be reached."""
        completes = incoming.method == "POST" and incoming.path in COMPLETIONS
        if completes and "gateway-duplicate" in self.faults:
            self._again(incoming)
        retry = None
        if completes and "retry-duplicate-effect" in self.faults:
            retry = asyncio.get_running_loop().call_later(
                self.faults["retry-duplicate-effect"] / 1000, self._again, incoming
            )
        try:
            async with self._send(incoming) as response:
                await self._pass_on(response, reply, completes, retry)
        except (aiohttp.ClientError, OSError):
            if reply.status is None:
                body = msgspec.json.encode({"error": {"message": "Bad gateway", "type": "gateway_error", "code": 502}})
                reply.send(502, body)
            else:
                reply.reset()
        finally:
            if retry is not None:
                retry.cancel()

    def _send(self, incoming: Incoming) -> "aiohttp.client._RequestContextManager":
        assert self._session is not None
        url = self.upstream + incoming.path + (f"?{incoming.query}" if incoming.query else "")
        headers = {name: value for name, value in incoming.headers.items() if name not in HOP}
        body = incoming.body if incoming.method == "POST" else None
        return self._session.request(incoming.method, url, data=body, headers=headers, allow_redirects=False)

    def _again(self, incoming: Incoming) -> None:
        """The same request once more, its answer thrown away."""

        async def send() -> None:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with self._send(incoming) as response:
                    await response.read()

        task = asyncio.get_running_loop().create_task(send())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _pass_on(
        self, response: aiohttp.ClientResponse, reply: Reply, completes: bool, retry: asyncio.TimerHandle | None
    ) -> None:
        content_type = response.headers.get("content-type", "application/json")
        if not content_type.startswith("text/event-stream"):
            body = await response.read()
            if completes and response.status == 200 and self._edits:
                body = self._edited(body)
            reply.send(response.status, body, content_type)
            return
        if retry is not None:
            retry.cancel()
        reply.open(response.status, content_type)
        editing = bool(self._edits) or "gateway-cut" in self.faults
        await (self._edit_stream(response, reply) if editing else self._copy_stream(response, reply))

    async def _copy_stream(self, response: aiohttp.ClientResponse, reply: Reply) -> None:
        async for data in response.content.iter_any():
            if reply.gone:
                return
            reply.write(data)
        reply.close()

    async def _edit_stream(self, response: aiohttp.ClientResponse, reply: Reply) -> None:
        cut, events, rest = self.faults.get("gateway-cut"), 0, b""
        async for data in response.content.iter_any():
            *whole, rest = (rest + data).split(b"\n\n")
            for event in whole:
                events += 1
                if reply.gone:
                    return
                if cut is not None and events > cut:
                    reply.close()
                    return
                reply.write(self._edited_event(event) + b"\n\n")
        reply.close()

    def _edited_event(self, event: bytes) -> bytes:
        if not event.startswith(b"data: {"):
            return event
        return b"data: " + self._edited(event[6:])

    def _edited(self, raw: bytes) -> bytes:
        try:
            body = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return raw
        for choice in body.get("choices") or []:
            message = choice.get("message") or choice.get("delta")
            if isinstance(message, dict):
                for edit in self._edits:
                    edit(message)
        return msgspec.json.encode(body)


def _drop_reasoning(message: dict[str, Any]) -> None:
    message.pop("reasoning", None)


def _drop_ids(message: dict[str, Any]) -> None:
    for call in message.get("tool_calls") or []:
        call.pop("id", None)
        call["function"].pop("name", None)


def _reencode(message: dict[str, Any]) -> None:
    for call in message.get("tool_calls") or []:
        if "arguments" in call["function"]:
            call["function"]["arguments"] = msgspec.json.encode(call["function"]["arguments"]).decode()


EDITS: dict[str, Edit] = {
    "gateway-drop-reasoning": _drop_reasoning,
    "gateway-drop-ids": _drop_ids,
    "gateway-reencode": _reencode,
}
