"""Plain HTTP beside the timed path: versions, models, tokenising, single scrapes. One request, no retry, bounded."""

import os
import ssl
from types import TracebackType

import aiohttp
from msgspec import Struct

from signoff.collect.unreached import why_unreached
from signoff.core.plan import Service
from signoff.errors import SignoffError

BODY_BYTES_MAX = 64 * 1024 * 1024


class Answer(Struct, frozen=True, kw_only=True):
    """What a control request came to; `error` is set when no HTTP answer came."""

    status: int | None = None
    headers: dict[str, str] = {}
    body: bytes = b""
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def key_of(service: Service) -> str | None:
    """The API key from the named environment variable; an error when it is named and not set."""
    if service.api_key_env is None:
        return None
    key = os.environ.get(service.api_key_env)
    if not key:
        raise SignoffError(
            f"environment variable {service.api_key_env} is not set", "Export the API key under that name."
        )
    if not (key.isascii() and key.isprintable()):
        raise SignoffError(
            f"environment variable {service.api_key_env} holds characters that no HTTP header carries",
            "Export the key alone, without a line end.",
        )
    return key


def tls_of(service: Service) -> ssl.SSLContext | None:
    """The TLS context for an https service, with its own CA when the plan names one."""
    if not service.base_url.startswith("https://"):
        return None
    try:
        return ssl.create_default_context(cafile=service.ca_file)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "holds no CA certificate"
        raise SignoffError(f"CA file {service.ca_file}: {why}", "Give a readable PEM file.") from None


class Control:
    """An HTTP session for control requests; `async with` it."""

    def __init__(self, service: Service) -> None:
        self.base_url = service.base_url.rstrip("/")
        self._key = key_of(service)
        self._tls = tls_of(service)
        self._session: aiohttp.ClientSession | None = None

    @property
    def has_key(self) -> bool:
        """Whether requests carry a key."""
        return self._key is not None

    async def __aenter__(self) -> "Control":
        connector = aiohttp.TCPConnector(force_close=True, limit=0, ssl=self._tls if self._tls else True)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, auto_decompress=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path_or_url: str, timeout_s: float = 10.0) -> Answer:
        return await self._send("GET", path_or_url, None, timeout_s)

    async def post(self, path_or_url: str, body: bytes, timeout_s: float = 60.0) -> Answer:
        return await self._send("POST", path_or_url, body, timeout_s)

    async def _send(self, method: str, path_or_url: str, body: bytes | None, timeout_s: float) -> Answer:
        assert self._session is not None
        url = path_or_url if path_or_url.startswith("http") else self.base_url + path_or_url
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
            ) as response:
                raw = await response.content.read(BODY_BYTES_MAX)
                while len(raw) < BODY_BYTES_MAX and not response.content.at_eof():
                    raw += await response.content.read(BODY_BYTES_MAX - len(raw))
                if self._key:  # a server that sends the key back does not bring it into a bundle
                    raw = raw.replace(self._key.encode(), b"[api key removed]")
                return Answer(
                    status=response.status, headers={k.lower(): v for k, v in response.headers.items()}, body=raw
                )
        except TimeoutError:
            return Answer(error=f"no answer within {timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(error=why_unreached(error))
