"""Why no HTTP answer came, in words for a person instead of those of the client library."""

import errno
import os
import socket
import ssl

import aiohttp

SAID_CHARS_MAX = 300
_WORDS = {
    errno.ECONNREFUSED: "connection refused: nothing listens there",
    errno.ECONNRESET: "the connection was reset",
    errno.EPIPE: "the connection was reset",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
    errno.ETIMEDOUT: "no answer to the connection attempt",
}


def why_unreached(error: BaseException) -> str:
    """The reason behind an exception of a request, bounded; never empty."""
    tls = _inner(error, ssl.SSLError)
    if tls is not None:
        return _tls(tls)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed without an answer"
    if isinstance(error, aiohttp.InvalidURL):
        return "not an address that can be asked"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ClientResponseError):
        return "what answers there does not speak HTTP"
    if _inner(error, socket.gaierror) is not None:
        return "name not found"
    said = _inner(error, OSError)
    if said is not None and (words := _words(said)):
        return words
    return f"{type(error).__name__}: {error}"[:SAID_CHARS_MAX]


def _inner(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """`error` or what it wraps, when that is of `kind`; the innermost such."""
    found: BaseException | None = None
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            break
        if isinstance(seen, kind):
            found = seen
        seen = getattr(seen, "os_error", None) or getattr(seen, "certificate_error", None) or seen.__cause__
        if seen is found:
            break
    return found


def _tls(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate is not trusted: {error.verify_message}"[:SAID_CHARS_MAX]
    reason = getattr(error, "reason", None) or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "TLS: what answers there does not speak TLS; is it http://?"
    return f"TLS: {str(reason).replace('_', ' ').lower()}"[:SAID_CHARS_MAX]


def _words(error: BaseException) -> str:
    """Of a number of the system; several attempts at once carry theirs in the text alone."""
    number = getattr(error, "errno", None)
    if number is None:
        number = next((known for known in _WORDS if f"[Errno {known}]" in str(error)), None)
    if number is None:
        return ""
    return _WORDS.get(number) or (os.strerror(number).lower() if number > 0 else "")
