"""Misbehaving servers: each ends in its own terminal state, in time, and never as a success."""

import asyncio
import gzip
import socket
import time

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_server import CLOCK, DONE, END, GOOD, HEAD, USAGE, RawServer, ask, chunk, event, exchange, says, streamed

from signoff.collect import client_flight
from signoff.collect.client import HttpClient
from signoff.core.plan import Service
from signoff.core.words import State

pytestmark = pytest.mark.filterwarnings("ignore:Overriding")
ERROR = b'data: {"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}\n\n'
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
BIG = b"x" * 65536


def json_answer(body: bytes) -> bytes:
    return JSON % (len(body), body)


def status(code: int, body: bytes = b'{"error":{"message":"busy"}}', more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\n%bContent-Length: %d\r\n\r\n%b" % (code, more, len(body), body)


def lies(size: bytes) -> bytes:
    return HEAD + size + b"\r\n" + GOOD[0] + b"\r\n"


HOSTILE = {
    "cut in the middle of an event": (says(HEAD, chunk(GOOD[0]), b"50\r\ndata: {", close=True), State.RESET),
    "cut between events": (says(HEAD, chunk(GOOD[0]), chunk(GOOD[1]), close=True), State.RESET),
    "cut after [DONE], before the last chunk": (says(HEAD, *map(chunk, [*GOOD, DONE]), close=True), State.RESET),
    "closed without an answer": (says(close=True), State.RESET),
    "closed in the headers": (says(b"HTTP/1.1 200 OK\r\nContent-", close=True), State.RESET),
    "content-length larger than the body": (
        says(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n", *GOOD, close=True),
        State.RESET,
    ),
    "content-length smaller than the body": (
        says(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(GOOD[0]),
            *GOOD,
            DONE,
        ),
        State.UNFINISHED,
    ),
    "error object after 200": (says(streamed(GOOD[0], GOOD[1], ERROR, DONE)), State.INBAND_ERROR),
    "error object, then cut": (says(HEAD, chunk(GOOD[1]), chunk(ERROR), close=True), State.INBAND_ERROR),
    "error object beside a finish": (says(streamed(*GOOD, ERROR, DONE)), State.INBAND_ERROR),
    "event named error": (says(streamed(GOOD[0], b"event: error\ndata: overloaded\n\n", DONE)), State.INBAND_ERROR),
    "object error of old servers": (
        says(streamed(b'data: {"object":"error","message":"bad"}\n\n', DONE)),
        State.INBAND_ERROR,
    ),
    "JSON error object with status 200": (says(json_answer(b'{"error":"no"}')), State.INBAND_ERROR),
    "no [DONE]": (says(streamed(*GOOD)), State.UNFINISHED),
    "[DONE] without a blank line": (says(streamed(*GOOD, b"data: [DONE]\n")), State.UNFINISHED),
    "no finish reason": (says(streamed(GOOD[0], GOOD[1], USAGE, DONE)), State.UNFINISHED),
    "finish reason abort": (says(streamed(GOOD[1], event({}, "abort"), USAGE, DONE)), State.UNFINISHED),
    "only [DONE]": (says(streamed(DONE)), State.UNFINISHED),
    "empty answer, chunked": (says(streamed()), State.UNFINISHED),
    "empty answer, no type": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), State.UNFINISHED),
    "204": (says(b"HTTP/1.1 204 No Content\r\n\r\n"), State.UNFINISHED),
    "no usage": (says(streamed(*GOOD[:3], DONE)), State.NO_USAGE),
    "events after [DONE]": (says(streamed(*GOOD, DONE, GOOD[1], DONE)), State.MALFORMED),
    "half a JSON as an event": (says(streamed(GOOD[0], b'data: {"choices":[\n\n', *GOOD[1:], DONE)), State.MALFORMED),
    "an event that is no object": (says(streamed(GOOD[0], b"data: 7\n\n", *GOOD[1:], DONE)), State.MALFORMED),
    "invalid UTF-8": (
        says(streamed(b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n', *GOOD, DONE)),
        State.MALFORMED,
    ),
    "HTML with status 200": (
        says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"),
        State.MALFORMED,
    ),
    "event stream under another type": (
        says(streamed(*GOOD, DONE).replace(b"text/event-stream", b"application/octet-stream")),
        State.MALFORMED,
    ),
    "whole answer although streaming was asked": (
        says(json_answer(b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}')),
        State.MALFORMED,
    ),
    "one line without end": (says(HEAD, *[chunk(b"data: " + BIG)] * 20, 5.0), State.MALFORMED),
    "headers without end": (says(b"HTTP/1.1 200 OK\r\n", *[b"X-A: %b\r\n" % BIG] * 3, 5.0), State.MALFORMED),
    "not HTTP at all": (says(b"SSH-2.0-OpenSSH_9.6\r\n", 5.0), State.MALFORMED),
    "HTTP/0.9": (says(b"hello\n", close=True), State.MALFORMED),
    "TLS where HTTP was asked": (says(b"\x15\x03\x01\x00\x02\x02\x16", 5.0), State.MALFORMED),
    "upgrade": (
        says(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 5.0),
        State.MALFORMED,
    ),
    "chunk size that is no number": (says(lies(b"zz"), 5.0), State.MALFORMED),
    "chunk size smaller than the chunk": (says(lies(b"5"), 5.0), State.MALFORMED),
    "gzip although identity was asked": (
        says(HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n", chunk(gzip.compress(b"".join([*GOOD, DONE]))), END),
        State.MALFORMED,
    ),
    "429": (says(status(429, more=b"Retry-After: 1\r\n")), State.HTTP_ERROR),
    "503": (says(status(503)), State.HTTP_ERROR),
    "503 whose body is cut": (
        says(b"HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\nbusy", close=True),
        State.HTTP_ERROR,
    ),
    "401": (says(status(401)), State.HTTP_ERROR),
    "redirect": (says(status(307, b"", b"Location: http://127.0.0.1:1/\r\n")), State.HTTP_ERROR),
    "413 before the body was read": (says(status(413), close=True), State.HTTP_ERROR),
    "no byte at all": (says(60.0), State.STALLED),
    "silence in the headers": (says(b"HTTP/1.1 200 OK\r\n", 60.0), State.STALLED),
    "silence in the stream": (says(HEAD, chunk(GOOD[0]), chunk(GOOD[1]), 60.0), State.STALLED),
    "silence after [DONE]": (says(HEAD, *map(chunk, [*GOOD, DONE]), 60.0), State.STALLED),
    "slow headers": (says(*[b"HTTP/1.1 200 OK\r\n", *[b"X-A: b\r\n", 0.05] * 40]), State.TIMEOUT),
    "slow drip": (says(HEAD, *[chunk(b": ping\n\n"), 0.05] * 40), State.TIMEOUT),
}


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy()  # as in a run; the healthy shapes are tried on both loops


@pytest.mark.parametrize(("script", "state"), HOSTILE.values(), ids=HOSTILE)
async def test_hostile(script, state: State) -> None:
    began = time.monotonic()
    found = await exchange(script, ask(deadline_s=0.7, silence_s=0.25))
    assert found.record.state is state, found.record.error
    assert found.record.error
    assert len(found.record.error) <= 2000
    assert time.monotonic() - began < 2.5
    assert found.record.end_ns >= found.record.sent_ns


WHOLE = {
    "error object with status 200": (json_answer(b'{"error":{"message":"no"}}'), State.INBAND_ERROR),
    "half a JSON": (json_answer(b'{"choices":['), State.MALFORMED),
    "a list": (json_answer(b"[]"), State.MALFORMED),
    "no choices": (json_answer(b"{}"), State.UNFINISHED),
    "no finish reason": (json_answer(b'{"choices":[{"message":{"content":"a"}}]}'), State.UNFINISHED),
    "empty": (json_answer(b""), State.UNFINISHED),
    "HTML": (json_answer(b"<html>"), State.MALFORMED),
    "nested beyond reason": (json_answer(b"[" * 100_000), State.MALFORMED),
}


@pytest.mark.parametrize(("raw", "state"), WHOLE.values(), ids=WHOLE)
async def test_hostile_without_streaming(raw: bytes, state: State) -> None:
    found = await exchange(says(raw), ask(stream=False, deadline_s=1.0))
    assert found.record.state is state, found.record.error


async def test_an_endless_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_flight, "RESPONSE_BYTES_MAX", 1_000_000)
    found = await exchange(says(HEAD, *[chunk((b": " + b"x" * 1020 + b"\n\n") * 64)] * 40, 5.0), ask(deadline_s=5))
    assert found.record.state is State.MALFORMED
    assert "larger than 1000000 bytes" in found.record.error
    assert len(found.response) <= 1_000_000


async def test_nobody_listening_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with HttpClient(Service(base_url=url), CLOCK) as client:
            found = await client.send(ask(), CLOCK.now_ns())
    assert found.record.state is State.REFUSED
    assert found.record.written_ns is None


async def test_a_host_without_address_is_refused() -> None:
    async with HttpClient(Service(base_url="http://nowhere.invalid:1"), CLOCK) as client:
        found = await client.send(ask(deadline_s=5), CLOCK.now_ns())
    assert found.record.state in (State.REFUSED, State.TIMEOUT)


@pytest.mark.parametrize("head", [HEAD, b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + GOOD[0]])
async def test_reset_by_the_peer(head: bytes) -> None:
    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    found = await exchange(script, ask(deadline_s=2))
    assert found.record.state is State.RESET
    assert "reset" in found.record.error.lower()


async def test_a_server_that_never_reads_is_stalled() -> None:
    server = await asyncio.start_server(lambda *_: asyncio.sleep(60), "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    request = ask(deadline_s=5, silence_s=0.4)
    huge = type(request)(**{f: getattr(request, f) for f in request.__struct_fields__} | {"body": b" " * 30_000_000})
    async with HttpClient(Service(base_url=url), CLOCK) as client:
        found = await client.send(huge, CLOCK.now_ns())
    server.close()
    assert found.record.state is State.STALLED
    assert found.record.written_ns is None


async def test_a_kept_connection_that_dies_is_recorded_and_not_sent_again() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.received) == 1:
            writer.write(streamed(*GOOD, DONE))
        else:
            writer.close()

    async with RawServer(script) as server, HttpClient(Service(base_url=server.base_url), CLOCK) as client:
        first = await client.send(ask(), CLOCK.now_ns())
        second = await client.send(ask(), CLOCK.now_ns())
        assert (first.record.state, second.record.state) == (State.OK, State.RESET)
        assert "kept-alive" in second.record.error
        assert len(server.received) == 2
        assert server.connections == 1


async def test_a_client_goes_on_after_every_hostile_answer() -> None:
    scripts = iter([script for script, _ in list(HOSTILE.values())[:20]])

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (next(scripts) if len(server.received) % 2 else says(streamed(*GOOD, DONE)))(reader, writer)

    async with RawServer(script) as server, HttpClient(Service(base_url=server.base_url), CLOCK) as client:
        for _ in range(20):
            bad = await client.send(ask(deadline_s=1, silence_s=0.3), CLOCK.now_ns())
            good = await client.send(ask(), CLOCK.now_ns())
            assert bad.record.state is not State.OK
            assert good.record.state is State.OK, good.record.error


ANSWER = streamed(*GOOD, DONE)


@given(st.integers(0, len(ANSWER) - 1), st.booleans())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_cut_stream_ever_counts_as_ok(at: int, ended: bool) -> None:
    """Cut anywhere, by closing or by a clean last chunk in the wrong place."""
    if ended:
        events = b"".join([*GOOD, DONE])
        raw = HEAD + (chunk(events[: at * (len(events) - 1) // len(ANSWER) + 1]) or b"") + END
        whole = at * (len(events) - 1) // len(ANSWER) + 1 == len(events)
    else:
        raw, whole = ANSWER[:at], False
    found = asyncio.run(exchange(says(raw, close=True), ask(deadline_s=2)))
    assert whole or found.record.state is not State.OK


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_any_bytes_as_an_answer(raw: bytes) -> None:
    for answer in (raw, HEAD + raw, streamed(raw)):
        found = asyncio.run(exchange(says(answer, close=True), ask(deadline_s=2)))
        assert found.record.state is not State.OK
