"""Events are the same however the network tears the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.collect.sse import EVENT_BYTES_MAX, SseReader


def read(*pieces: bytes) -> list[bytes]:
    reader = SseReader()
    return [payload for piece in pieces for payload in reader.feed(piece)]


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\n\r\ndata: b\r\n\n", [b"a", b"b"]),
        (b": keep-alive\n\ndata: a\n\n: x\n\n", [b"a"]),
        (b": note\ndata: a\n: note\n\n", [b"a"]),
        (b"data: {\ndata: }\n\n", [b"{\n}"]),
        (b"id: 7\nevent: message\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"data\n\ndata:\n\n", []),
        (b"\n\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n", []),
        (b"data: a", []),
        (b"nonsense\n\ndata: a\n\n", [b"a"]),
        (b"xdata: a\n\n", []),
    ],
)
def test_shapes(body: bytes, payloads: list[bytes]) -> None:
    assert read(body) == payloads
    assert read(*[body[i : i + 1] for i in range(len(body))]) == payloads


def test_error_events_are_apart() -> None:
    reader = SseReader()
    assert reader.feed(b"event: error\ndata: x\n\ndata: a\n\n") == [b"a"]
    assert reader.errors == [b"x"]


LINES = st.lists(
    st.sampled_from(
        [b"data: a", b"data:b", b"data: \xc3\xa9", b": c", b"event: error", b"", b"", b"id", b"data", b"\xef\xbb\xbf"]
    ),
    max_size=14,
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=3), st.lists(st.integers(0, 200), max_size=8))
def test_any_split_gives_the_same_events(parts: list[tuple[list[bytes], bytes]], cuts: list[int]) -> None:
    body = b"".join(line + end for lines, end in parts for line in lines)
    whole, torn = SseReader(), SseReader()
    wanted = whole.feed(body)
    at = sorted({cut for cut in cuts if cut < len(body)})
    found = [p for a, b in zip([0, *at], [*at, len(body)], strict=True) for p in torn.feed(body[a:b])]
    assert (found, torn.errors) == (wanted, whole.errors)


@given(st.binary(max_size=300))
def test_any_bytes(body: bytes) -> None:
    reader = SseReader()
    reader.feed(body[:7])
    reader.feed(body[7:])


@pytest.mark.parametrize("begin", [b"data: ", b"data: \r\ndata: "])
def test_an_event_that_never_ends_is_bounded(begin: bytes) -> None:
    reader = SseReader()
    reader.feed(begin)
    for _ in range(EVENT_BYTES_MAX // 65536 + 2):
        reader.feed(b"x" * 65536)
    assert reader.too_large


def test_many_lines_of_one_event_are_bounded() -> None:
    reader = SseReader()
    for _ in range(EVENT_BYTES_MAX // 60000 + 2):
        reader.feed(b"data: " + b"x" * 60000 + b"\r\n")
    assert reader.too_large
