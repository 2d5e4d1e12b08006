"""Healthy servers of every legal shape: all of them ok, with every instant in its place."""

import asyncio
import ssl
import subprocess
import time
from pathlib import Path

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_server import CLOCK, DONE, END, GOOD, HEAD, USAGE, RawServer, ask, chunk, event, exchange, says, streamed

from signoff.collect.client import HANG_UP, HttpClient
from signoff.collect.client_answer import Tally
from signoff.collect.client_connection import Connection
from signoff.collect.client_flight import Flight
from signoff.collect.sse import SseReader
from signoff.core.plan import Service
from signoff.core.words import State
from signoff.errors import SignoffError

pytestmark = pytest.mark.filterwarnings("ignore:Overriding")
LOOPS = [asyncio.DefaultEventLoopPolicy(), uvloop.EventLoopPolicy()]
CALL = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    return request.param


async def test_every_instant_in_order_and_every_fact() -> None:
    script = says(
        HEAD,
        *[0.02, chunk(GOOD[0]), 0.02, chunk(event({"reasoning": "hm"})), 0.02, chunk(event({"content": "a"}))],
        *[0.02, chunk(event(CALL)), 0.02, chunk(event({}, "tool_calls")), chunk(USAGE + DONE), END],
    )
    found = await exchange(script)
    r = found.record
    assert r.state is State.OK, r.error
    instants = [
        *(r.planned_ns, r.sent_ns, r.connected_ns, r.written_ns, r.first_byte_ns, r.first_event_ns),
        *(r.first_reasoning_ns, r.first_content_ns, r.first_tool_ns, r.end_ns),
    ]
    assert instants == sorted(instants)
    assert r.chunk_ns == [r.first_reasoning_ns, r.first_content_ns, r.first_tool_ns]
    assert r.first_event_ns < r.first_reasoning_ns - 10e6
    assert (r.status, r.finish_reason) == (200, "tool_calls")
    assert (r.prompt_tokens, r.completion_tokens, r.cached_tokens, r.reasoning_tokens) == (5, 2, 4, None)
    assert found.response.startswith(b"data: {")
    assert found.response.endswith(DONE)
    assert found.request == ask().body


LEGAL = {
    "CR LF": streamed(*[each.replace(b"\n", b"\r\n") for each in [*GOOD, DONE]]),
    "lone CR": streamed(*[each.replace(b"\n", b"\r") for each in [*GOOD, DONE]]),
    "no blank after data:": streamed(*[each.replace(b"data: ", b"data:") for each in [*GOOD, DONE]]),
    "keep-alive comments": streamed(b": ping\n\n", GOOD[0], b":\n\n", *GOOD[1:], b": ping\n\n", DONE),
    "all in one chunk": HEAD + chunk(b"".join([*GOOD, DONE])) + END,
    "chunk extensions and trailers": HEAD
    + b"".join(b"%x;a=b\r\n%b\r\n" % (len(e), e) for e in [*GOOD, DONE])
    + b"0\r\nX-T: 1\r\n\r\n",
    "content-length": b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b"
    % (len(b"".join([*GOOD, DONE])), b"".join([*GOOD, DONE])),
    "interim answer first": b"HTTP/1.1 100 Continue\r\n\r\n" + streamed(*GOOD, DONE),
    "usage beside the last choice": streamed(*GOOD[:2], event({}, "stop", usage={"prompt_tokens": 5}), DONE),
    "error null": streamed(*GOOD[:2], event({"content": "b"}, "stop", error=None), USAGE, DONE),
    "unknown fields": streamed(event({"content": "a", "x": {"y": [1]}}, z=None), *GOOD[2:], DONE),
    "content as a list of parts": streamed(event({"content": [{"type": "text", "text": "a"}]}), *GOOD[1:], DONE),
    "an event of two data lines, torn between them": HEAD
    + chunk(b'data: {"choices":[{"index":0,"delta":\n')
    + chunk(b'data: {"content":"a"}}]}\n\n')
    + b"".join(map(chunk, [*GOOD, DONE]))
    + END,
    "a comment inside an event, torn": HEAD
    + b"".join(map(chunk, [GOOD[0], GOOD[1][:-1] + b":", b" ping\n\n", *GOOD[1:], DONE]))
    + END,
    "characters torn between chunks": HEAD
    + b"".join(chunk(e[i : i + 1]) for e in [*GOOD, event({"content": "é漢"}), DONE] for i in range(len(e)))
    + END,
}


@pytest.mark.parametrize("raw", LEGAL.values(), ids=LEGAL)
async def test_legal_shapes(raw: bytes) -> None:
    found = await exchange(says(raw))
    assert found.record.state is State.OK, found.record.error
    assert found.record.error == ""
    assert len(found.record.chunk_ns) >= 1
    assert found.record.prompt_tokens == 5


@pytest.mark.parametrize("version", [b"HTTP/1.0 200 OK", b"HTTP/1.1 200 OK\r\nConnection: close"])
async def test_a_body_that_only_the_end_of_the_connection_delimits(version: bytes) -> None:
    raw = version + b"\r\nContent-Type: text/event-stream\r\n\r\n" + b"".join([*GOOD, DONE])
    assert (await exchange(says(raw, close=True))).record.state is State.OK
    assert (await exchange(says(raw[:-20], close=True))).record.state is State.UNFINISHED


async def test_an_answer_before_the_request_was_read_ends_the_connection() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 X\r\nContent-Length: 4\r\n\r\nhuge")
        await asyncio.sleep(0.5)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    request = ask(deadline_s=5)
    huge = type(request)(**{f: getattr(request, f) for f in request.__struct_fields__} | {"body": b" " * 30_000_000})
    async with HttpClient(Service(base_url=url), CLOCK) as client:
        found = await client.send(huge, CLOCK.now_ns())
        assert (found.record.state, found.record.status) == (State.HTTP_ERROR, 413)
        assert found.record.written_ns is None
        await client.send(ask(), CLOCK.now_ns())
        assert connections == 2
    server.close()


async def test_done_said_twice_is_noted() -> None:
    found = await exchange(says(streamed(*GOOD, DONE, DONE)))
    assert found.record.state is State.OK
    assert found.record.error == "[DONE] came more than once"


async def test_several_choices_all_must_finish() -> None:
    def of(index: int, finish: str | None) -> bytes:
        return event(choices=[{"index": index, "delta": {"content": "a"}, "finish_reason": finish}])

    both = await exchange(says(streamed(of(0, None), of(1, "length"), of(0, "stop"), USAGE, DONE)))
    one = await exchange(says(streamed(of(0, None), of(1, "length"), USAGE, DONE)))
    assert (both.record.state, both.record.finish_reason) == (State.OK, "stop,length")
    assert one.record.state is State.UNFINISHED


async def test_without_streaming() -> None:
    body = (
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]},'
        b'"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3,'
        b'"completion_tokens_details":{"reasoning_tokens":2}}}'
    )
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    found = await exchange(says(raw), ask(stream=False))
    assert found.record.state is State.OK, found.record.error
    assert (found.record.prompt_tokens, found.record.reasoning_tokens) == (7, 2)
    assert found.response == body
    assert found.record.ttft_ns is None


async def test_usage_is_missed_only_where_it_was_asked_for() -> None:
    found = await exchange(says(streamed(*GOOD[:3], DONE)), ask(usage=False))
    assert found.record.state is State.OK
    assert found.record.prompt_tokens is None


async def test_completions_text_is_content() -> None:
    text = event(choices=[{"index": 0, "text": "a", "finish_reason": "stop"}])
    found = await exchange(says(streamed(text, USAGE, DONE)), ask(path="/v1/completions"))
    assert found.record.state is State.OK
    assert found.record.chunk_ns == [found.record.first_content_ns]


async def test_request_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_TEST_KEY", "s3cret")
    async with RawServer(says(streamed(*GOOD, DONE))) as server:
        service = Service(base_url=server.base_url + "/deep/", api_key_env="SIGNOFF_TEST_KEY")
        async with HttpClient(service, CLOCK) as client:
            await client.send(ask(headers={"X-Session": "7"}), CLOCK.now_ns())
            with pytest.raises(ValueError, match="line break"):
                await client.send(ask(headers={"X-Session": "7\r\nX-Evil: 1"}), CLOCK.now_ns())
    head, _, body = server.received[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /deep/v1/chat/completions HTTP/1.1"
    assert b"Host: localhost:%d" % server.port in lines
    assert b"Authorization: Bearer s3cret" in lines
    assert b"X-Request-Id: r1" in lines
    assert b"X-Session: 7" in lines
    assert b"Accept: text/event-stream" in lines
    assert body == ask().body
    assert len(server.received) == 1


async def test_a_connection_is_used_again_but_not_after_it_idled() -> None:
    async with RawServer(says(streamed(*GOOD, DONE))) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            for _ in range(3):
                await client.send(ask(), CLOCK.now_ns())
            assert server.connections == 1
            client._idle[0].idle_since_ns -= int(3e9)
            found = await client.send(ask(), CLOCK.now_ns())
            assert (found.record.state, server.connections) == (State.OK, 2)


async def test_connections_of_a_higher_load_do_not_stay_open() -> None:
    async with RawServer(says(0.05, streamed(*GOOD, DONE))) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            await asyncio.gather(*[client.send(ask(), CLOCK.now_ns()) for _ in range(8)])
            assert (len(client._idle), server.connections) == (8, 8)
            for connection in list(client._idle)[:7]:
                connection.idle_since_ns -= int(3e9)
            await client.send(ask(), CLOCK.now_ns())
            assert (len(client._idle), server.connections) == (1, 8)


async def test_a_large_request_is_written_when_its_last_byte_went() -> None:
    request = ask()
    huge = type(request)(**{f: getattr(request, f) for f in request.__struct_fields__} | {"body": b" " * 20_000_000})
    found = await exchange(says(streamed(*GOOD[:3], DONE)), huge)
    assert found.record.state is State.OK, found.record.error
    assert found.record.written_ns > found.record.connected_ns
    assert found.record.ttft_ns > 0


async def test_bodies_of_good_answers_can_be_dropped() -> None:
    good = await exchange(says(streamed(*GOOD, DONE)), keep_body=False)
    bad = await exchange(says(b"HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nbusy"), keep_body=False)
    assert (good.response, bad.response) == (b"", b"busy")


@pytest.fixture(scope="module", name="tls")
def tls_fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    folder = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    command = [*made.split(), "-addext", "subjectAltName=DNS:localhost", "-out", str(pem), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context, pem


async def test_tls_with_its_own_ca(tls: tuple[ssl.SSLContext, Path]) -> None:
    context, pem = tls
    async with RawServer(says(streamed(*GOOD, DONE)), tls=context) as server:
        async with HttpClient(Service(base_url=server.base_url, ca_file=str(pem)), CLOCK) as client:
            trusted = await client.send(ask(), CLOCK.now_ns())
            again = await client.send(ask(), CLOCK.now_ns())
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            untrusted = await client.send(ask(deadline_s=5), CLOCK.now_ns())
    assert (trusted.record.state, again.record.state) == (State.OK, State.OK)
    assert trusted.record.ttft_ns > 0
    assert untrusted.record.state is State.REFUSED
    assert "certificate" in untrusted.record.error.lower()
    assert len(server.received) == 2


async def test_hang_up_gives_the_record() -> None:
    async with RawServer(says(HEAD, chunk(GOOD[1]), 60.0)) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            task = asyncio.create_task(client.send(ask(), CLOCK.now_ns()))
            await asyncio.sleep(0.1)
            task.cancel(HANG_UP)
            found = await task
            assert found.record.state is State.ABORTED
            assert len(found.record.chunk_ns) == 1
            assert not client._flying


@pytest.mark.parametrize("when", ["connecting", "streaming"])
async def test_abort_gives_every_record(when: str) -> None:
    async with RawServer(says(HEAD, chunk(GOOD[1]), 60.0)) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            tasks = [asyncio.create_task(client.send(ask(), CLOCK.now_ns())) for _ in range(5)]
            await asyncio.sleep(0 if when == "connecting" else 0.1)
            client.abort()
            found = await asyncio.wait_for(asyncio.gather(*tasks), 2)
            assert [e.record.state for e in found] == [State.ABORTED] * 5


async def test_a_cancelled_task_is_cancelled() -> None:
    async with RawServer(says(HEAD, 60.0)) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            task = asyncio.create_task(client.send(ask(), CLOCK.now_ns()))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not client._flying
            assert not client._idle


async def test_a_lagging_client_disqualifies_its_own_requests() -> None:
    script = says(HEAD, chunk(GOOD[1]), 0.3, *map(chunk, [*GOOD[2:], DONE]), END)
    async with RawServer(script) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            task = asyncio.create_task(client.send(ask(), CLOCK.now_ns()))
            await asyncio.sleep(0.1)
            time.sleep(0.1)  # noqa: ASYNC251  the fault under test
            lagged = await task
            server.script = says(streamed(*GOOD, DONE))
            await asyncio.sleep(0.05)
            quiet = await client.send(ask(), CLOCK.now_ns())
    assert "lagged" in lagged.record.disqualified
    assert lagged.record.state is State.OK
    assert quiet.record.disqualified == ""


def test_a_base_url_that_is_none() -> None:
    with pytest.raises(SignoffError, match="not an http"):
        HttpClient(Service(base_url="localhost:8000"), CLOCK)


EVENTS = [
    *[GOOD[0], event({"reasoning_content": "r"}), event({"content": "漢"}), b": c\n\n", event(CALL)],
    *[event({}, "stop"), USAGE, b"event: error\ndata: x\n\n", DONE],
]


@given(st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(0, 2000), max_size=12))
@settings(deadline=None)
def test_torn_anywhere_gives_the_same_facts(end: bytes, cuts: list[int]) -> None:
    body = b"".join(EVENTS).replace(b"\n", end)

    def facts(pieces: list[bytes]) -> tuple:
        reader, tally = SseReader(), Tally()
        for piece in pieces:
            for payload in reader.feed(piece):
                tally.event(payload, 1)
            for payload in reader.errors:
                tally.named_error(payload)
            reader.errors.clear()
        return tuple(str(getattr(tally, name)) for name in Tally.__slots__)

    at = sorted({cut for cut in cuts if cut < len(body)})
    assert facts([body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True)]) == facts([body])


async def test_a_defect_of_ours_ends_one_request_and_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawServer(says(streamed(*GOOD, DONE))) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            with monkeypatch.context() as broken:
                broken.setattr(Tally, "event", lambda *_: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    await client.send(ask(), CLOCK.now_ns())
            assert not client._flying
            assert (await client.send(ask(), CLOCK.now_ns())).record.state is State.OK


async def test_a_client_that_slept_through_the_silence_does_not_blame_the_server() -> None:
    script = says(HEAD, *[part for each in [*GOOD * 8, DONE] for part in (chunk(each), 0.02)], END)
    async with RawServer(script) as server:
        async with HttpClient(Service(base_url=server.base_url), CLOCK) as client:
            task = asyncio.create_task(client.send(ask(silence_s=0.2), CLOCK.now_ns()))
            await asyncio.sleep(0.1)
            time.sleep(0.4)  # noqa: ASYNC251  the fault under test
            found = await task
    assert found.record.state is State.OK, found.record.error
    assert "lagged" in found.record.disqualified


class Nowhere(asyncio.Transport):
    """A transport that takes everything and gives nothing."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None: ...
    def abort(self) -> None: ...


WIRE = [
    streamed(*GOOD[:1], *[event({"content": f"w{k}"}) for k in range(6)], *GOOD[1:], DONE),
    HEAD + chunk(b"".join([*GOOD, DONE])) + END,
    streamed(*[each.replace(b"\n", b"\r\n") for each in [GOOD[0], GOOD[1]]], *GOOD[1:], DONE),
    streamed(GOOD[0], b": ping\n\n", GOOD[1], event(CALL), GOOD[1], *GOOD[1:], DONE),
    streamed(GOOD[1], GOOD[1], GOOD[1][:-1] + b"data: 7\n\n", DONE),
]


@given(st.sampled_from(WIRE), st.lists(st.integers(0, 3000), max_size=10))
@settings(deadline=None)
def test_the_network_may_tear_the_answer_anywhere(raw: bytes, cuts: list[int]) -> None:
    async def facts(pieces: list[bytes]) -> tuple:
        async with HttpClient(Service(base_url="http://127.0.0.1:1"), CLOCK) as client:
            connection = Connection(client)
            connection.connection_made(Nowhere({"ssl_object": "no file number"}))
            flight = Flight(ask(), 1, 1, keep_body=True)
            connection.begin(flight, b"")
            for piece in pieces:
                connection.data_received(piece)
                if len(pieces) % 2:
                    connection.drain()
            connection.drain()
            record = flight.exchange("").record
            told = (record.state, record.error, record.finish_reason, record.prompt_tokens, record.status)
            return *told, len(record.chunk_ns), record.first_tool_ns is None, flight.exchange("").response

    at = sorted({cut for cut in cuts if 0 < cut < len(raw)})
    torn = [raw[a:b] for a, b in zip([0, *at], [*at, len(raw)], strict=True)]
    assert asyncio.run(facts(torn)) == asyncio.run(facts([raw]))
