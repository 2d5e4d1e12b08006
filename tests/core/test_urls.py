import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.urls import shown_url, url_fault


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "https://llm.example.org",
        "http://[::1]:8000",
        "http://localhost/path",
        "http://127.0.0.1:8000/metrics?name=a",
    ],
)
def test_an_address_of_a_server_has_no_fault(url: str) -> None:
    assert url_fault(url) == ""


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:8000", "begin with http"),
        ("ftp://host", "begin with http"),
        ("http://", "no host"),
        ("http://:8000", "no host"),
        ("http://127.0.0.1:99999", "1 to 65535"),
        ("http://127.0.0.1:0", "1 to 65535"),
        ("http://127.0.0.1:", "1 to 65535"),
        ("http://127.0.0.1:80a", "1 to 65535"),
        ("http://[::1", "cannot be read"),
        ("http://ho st", "spaces"),
        ("http://ho\x1bst", "do not print"),
        ("http://me:sesame@host", "user name or password"),
        ("http://sesame@host:99999", "user name or password"),
        ("http://" + "a" * 3000, "longer"),
    ],
)
def test_a_fault_is_said(url: str, says: str) -> None:
    assert says in url_fault(url)


@given(st.text(max_size=60))
def test_no_text_raises_and_no_secret_is_repeated(tail: str) -> None:
    for url in (tail, f"http://{tail}", f"http://me:opensesame@{tail}"):
        assert "opensesame" not in url_fault(url)
    assert "opensesame" not in shown_url(f"http://me:opensesame@{tail}")


def test_a_shown_address_is_without_its_user() -> None:
    assert shown_url("http://me:sesame@host:1/v1") == "http://...@host:1/v1"
    assert shown_url("me:se/s@ame@host") == "...@host"
    assert shown_url("http://host/\x1b[2J") == "http://host/?[2J"
