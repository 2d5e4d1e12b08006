"""Why nothing answered is told in words, never as the text of the client library."""

import asyncio
import socket
import ssl

import aiohttp
import pytest

from signoff.collect.control import Control
from signoff.collect.unreached import why_unreached
from signoff.core.plan import Service


async def asked(url: str, timeout_s: float = 5.0) -> str:
    async with Control(Service(base_url=url)) as control:
        return (await control.get("/version", timeout_s)).error


async def serving(answer: bytes | None):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        if answer is None:
            await asyncio.sleep(3)
        writer.write(answer or b"")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost:1"])
async def test_nothing_listens(url: str) -> None:
    assert await asked(url) == "connection refused: nothing listens there"


async def test_no_such_name() -> None:
    assert await asked("http://no-such-name.invalid") == "name not found"


@pytest.mark.parametrize(
    ("scheme", "answer", "says"),
    [
        ("http", b"", "closed without an answer"),
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", "broke off"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS: what answers there does not speak TLS"),
    ],
)
async def test_what_answers_is_not_usable(scheme: str, answer: bytes, says: str) -> None:
    server, place = await serving(answer)
    async with server:
        assert says in await asked(f"{scheme}://{place}")


async def test_silence() -> None:
    server, place = await serving(None)
    async with server:
        assert await asked(f"http://{place}", 0.2) == "no answer within 0.2 s"


def test_a_certificate_that_is_not_trusted() -> None:
    error = ssl.SSLCertVerificationError(1, "bad")
    error.verify_message = "self-signed certificate"
    assert why_unreached(error) == "TLS: the certificate is not trusted: self-signed certificate"


def test_several_attempts_at_once_and_what_nobody_foresaw() -> None:
    assert "refused" in why_unreached(OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] x"))
    assert why_unreached(ConnectionResetError(104, "x")) == "the connection was reset"
    assert why_unreached(socket.gaierror(-2, "Name or service not known")) == "name not found"
    assert why_unreached(aiohttp.InvalidURL("x")) == "not an address that can be asked"
    assert why_unreached(ValueError("x" * 999)).startswith("ValueError: x")
    assert len(why_unreached(ValueError("x" * 999))) <= 300
