"""`signoff load` end to end: its numbers against a server whose timing is known, and what it refuses to measure."""

import asyncio
import threading
from collections.abc import Iterator

import msgspec
import pytest

from signoff.core.codec import to_json
from signoff.errors import SignoffError
from signoff.run.load import load_text, run_load

MODELS = b'{"object":"list","data":[{"id":"m"}]}'
TWO_MODELS = b'{"object":"list","data":[{"id":"m"},{"id":"n"}]}'
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":"length"}]}\n\n'
FIRST_S, GAP_S = 0.1, 0.02


class Server(threading.Thread):
    """First token after 100 ms, then one every 20 ms; `breaks` requests end without a finish."""

    def __init__(self, models: bytes = MODELS, status: int = 200, breaks: int = 0) -> None:
        super().__init__(daemon=True)
        self.models, self.status, self.breaks = models, status, breaks
        self.bodies: list[dict] = []
        self.heads: list[bytes] = []
        self.ready = threading.Event()
        self.port = 0

    def run(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._listen())
        self.ready.set()
        self.loop.run_forever()

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                if head.startswith(b"GET"):
                    size = len(self.models)
                    writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (self.status, size, self.models))
                    continue
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                body = msgspec.json.decode(await reader.readexactly(length))
                self.bodies.append(body)
                await self._stream(writer, body["max_tokens"], len(self.bodies) <= self.breaks)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, tokens: int, broken: bool) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        at = self.loop.time() + FIRST_S
        for number in range(tokens):
            await asyncio.sleep(at + GAP_S * number - self.loop.time())
            event = LAST if number == tokens - 1 and not broken else CHUNK
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d}}\n\ndata: [DONE]\n\n' % tokens
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(usage), usage))


@pytest.fixture(name="start")
def start_fixture() -> Iterator:
    started: list[Server] = []

    def start(**about) -> Server:
        server = Server(**about)
        server.start()
        server.ready.wait(5)
        started.append(server)
        return server

    yield start
    for server in started:
        server.loop.call_soon_threadsafe(server.loop.stop)


def test_numbers_near_the_truth(start) -> None:
    server = start()
    found = run_load(f"http://127.0.0.1:{server.port}", streams=8, requests=24, output_tokens=10)
    assert (found.requests, found.ok, found.states) == (24, 24, {"ok": 24})
    assert found.chunks == 240
    assert found.ttft_ms.p50 == pytest.approx(FIRST_S * 1e3, abs=30)
    assert found.itl_ms.p50 == pytest.approx(GAP_S * 1e3, abs=8)
    assert found.e2e_ms.p50 == pytest.approx((FIRST_S + 9 * GAP_S) * 1e3, abs=60)
    assert found.duration_s >= 3 * (FIRST_S + 9 * GAP_S) - 0.01
    assert found.output_tokens_per_s == pytest.approx(240 / found.duration_s, rel=1e-3)
    assert found.client.peak_rss_mb > 10
    assert found.client.cpu_us_per_chunk > 0
    prompts = [body["messages"][0]["content"] for body in server.bodies]
    assert len({prompt.split()[0] for prompt in prompts}) == 24
    assert {body["model"] for body in server.bodies} == {"m"}


def test_starts_can_be_spread(start) -> None:
    found = run_load(f"http://127.0.0.1:{start().port}", 4, 4, 30, spread_s=0.4)
    assert found.duration_s == pytest.approx(0.3 + FIRST_S + 29 * GAP_S, abs=0.15)


def test_the_json_has_exactly_its_keys(start) -> None:
    made = msgspec.json.decode(to_json(run_load(f"http://127.0.0.1:{start().port}", 1, 1, 2)))
    assert set(made) == {
        *("requests", "ok", "states", "duration_s", "ttft_ms", "itl_ms", "e2e_ms", "output_tokens_per_s", "chunks"),
        "client",
    }
    assert set(made["ttft_ms"]) == set(made["itl_ms"]) == set(made["e2e_ms"]) == {"p50", "p95", "p99"}
    assert set(made["client"]) == {"cpu_us_per_chunk", "lag_ms_p99", "peak_rss_mb", "disqualified_share"}


def test_broken_answers_are_counted_apart(start) -> None:
    found = run_load(f"http://127.0.0.1:{start(breaks=3).port}", 4, 8, 3)
    assert (found.requests, found.ok) == (8, 5)
    assert found.states == {"ok": 5, "unfinished": 3}
    assert "3 unfinished" in load_text(found)


def test_nothing_but_failures_has_no_latency(start) -> None:
    found = run_load(f"http://127.0.0.1:{start(breaks=9).port}", 2, 2, 2)
    assert (found.ok, found.ttft_ms.p50, found.output_tokens_per_s) == (0, None, 0)
    assert "0 ok of 2" in load_text(found)


def test_the_key_is_sent(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_TEST_KEY", "s3cret")
    server = start(models=TWO_MODELS)
    run_load(f"http://127.0.0.1:{server.port}", 1, 1, 1, "n", "SIGNOFF_TEST_KEY")
    assert all(b"Authorization: Bearer s3cret" in head for head in server.heads)
    assert server.bodies[0]["model"] == "n"


@pytest.mark.parametrize(
    ("about", "model", "says"),
    [
        ({"status": 401}, None, "key is wanted\n.*--api-key-env"),
        ({}, "other", "does not serve `other`"),
        ({"models": TWO_MODELS}, None, "serves 2 models: m, n\n.*--model"),
        ({"models": b"<html>"}, None, "not a list of models"),
        ({"models": b"\xff\xfe"}, None, "not a list of models"),
        ({"models": b'{"data": []}'}, None, "serves 0 models"),
        ({"status": 404}, None, "--base-url must be the server's root, without /v1"),
    ],
)
def test_what_is_wrong_before_the_first_request_is_usage(start, about: dict, model: str | None, says: str) -> None:
    server = start(**about)
    with pytest.raises(SignoffError, match=says) as raised:
        run_load(f"http://127.0.0.1:{server.port}", 1, 1, 1, model)
    assert raised.value.exit_code == 2
    assert server.bodies == []


def test_a_service_without_a_list_is_asked_for_the_model_that_was_named(start) -> None:
    server = start(status=404)
    run_load(f"http://127.0.0.1:{server.port}/", 1, 1, 1, "named")
    assert server.bodies[0]["model"] == "named"


def test_a_refused_key_is_told_from_a_key_that_is_wanted(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNOFF_TEST_KEY", "s3cret")
    with pytest.raises(SignoffError, match="the key was refused") as raised:
        run_load(f"http://127.0.0.1:{start(status=401).port}", 1, 1, 1, None, "SIGNOFF_TEST_KEY")
    assert "s3cret" not in str(raised.value)


def test_nobody_there() -> None:
    with pytest.raises(SignoffError, match=r"127\.0\.0\.1:1/v1/models: connection refused"):
        run_load("http://127.0.0.1:1", 1, 1, 1)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:1", "must begin with http"),
        ("http://127.0.0.1:99999", "1 to 65535"),
        ("http://[::1", "IPv6"),
        ("http://me:sesame@127.0.0.1:1", "user name or password"),
        ("http://127.0.0.1:1/v1", "ends in /v1"),
        ("http://127.0.0.1:1/v1/", "ends in /v1"),
        ("http://127.0.0.1:1?a=b", "must not hold"),
    ],
)
def test_an_address_that_cannot_be_asked(url: str, says: str) -> None:
    with pytest.raises(SignoffError, match=says) as raised:
        run_load(url, 1, 1, 1, "m")
    assert raised.value.exit_code == 2
    assert "sesame" not in str(raised.value)


def test_a_ca_file_that_holds_nothing(tmp_path) -> None:
    for path in (tmp_path / "none.pem", tmp_path / "empty.pem"):
        (tmp_path / "empty.pem").touch()
        with pytest.raises(SignoffError, match="CA file"):
            run_load("https://127.0.0.1:1", 1, 1, 1, "m", ca_file=str(path))


def test_the_text_says_what_its_abbreviations_are(start) -> None:
    text = load_text(run_load(f"http://127.0.0.1:{start().port}", 1, 1, 2))
    for word in ("TTFT", "ITL", "end to end", "time to first token", "inter-token latency"):
        assert word in text
