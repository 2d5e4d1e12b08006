"""What makes an address unusable, told before anything connects. Pure; never repeats a user name or a password."""

from urllib.parse import urlsplit

from signoff.core.printable import printable

URL_CHARS_MAX = 2000


def url_fault(url: str) -> str:
    """Why `url` cannot be the address of a server, as words for an error; empty when it can.

    The words hold no part of what stands before an `@`, so that a key written there reaches no screen and no file."""
    if not url.startswith(("http://", "https://")):
        return "must begin with http:// or https://"
    if len(url) > URL_CHARS_MAX:
        return f"is longer than {URL_CHARS_MAX} characters"
    if not all(c.isprintable() for c in url) or " " in url or "\\" in url:
        return "must not hold spaces, backslashes or characters that do not print"
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return "has a host that cannot be read; an IPv6 address stands in [ ]"
    if "@" in parts.netloc:
        return "must not hold a user name or password; name the variable with the key instead (api_key_env)"
    try:
        port = parts.port
    except ValueError:
        return "has a port that is not a number from 1 to 65535"
    if not host:
        return "names no host"
    if port == 0 or parts.netloc.endswith(":"):
        return "has a port that is not a number from 1 to 65535"
    return ""


def shown_url(url: str) -> str:
    """`url` for an error: nothing of what stands before its last `@`, printable, bounded."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    _, at, tail = rest.rpartition("@")
    return printable(f"{scheme[:10]}{mark}{'...' + at if at else ''}{tail}"[:200])
