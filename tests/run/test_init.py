"""`init`: a plan that parses, holds the profile's demands and the server's facts as comments only."""

import asyncio

import pytest
from answering_server import answering
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from signoff.core.plan import Plan
from signoff.core.plan_text import parse_plan
from signoff.errors import SignoffError
from signoff.run.announce import UNUSED
from signoff.run.init import _quoted as quoted
from signoff.run.init import init

FIXED = {
    "schema", "name", "profile", "service", "nodes", "start", "gates", "objective", "load", "prefix", "agent",
    "controls", "caps", "review", "triggers", "rollback", "retest_of", "seed",
}  # fmt: skip


async def test_the_plan_parses_and_has_every_key() -> None:
    async with answering(["served"]) as base_url:
        text = await init(base_url + "/", "vllm-cpu")
    tree = YAML(typ="safe").load(text)
    assert set(tree) == FIXED == set(Plan.__struct_fields__)
    plan = parse_plan(text)
    assert plan.service.base_url == base_url
    assert (plan.profile, plan.service.model) == ("vllm-cpu", "served")
    assert plan.load.soak.hours == pytest.approx(45 / 3600)
    assert plan.prefix.rounds == 5


async def test_what_the_server_tells_stands_in_comments_only() -> None:
    async with answering(["served"]) as base_url:
        text = await init(base_url, "kimi-k3")
    facts = [line for line in text.splitlines() if "4096" in line or "0.32.0" in line or "block_size" in line]
    assert facts
    assert all(line.startswith("#") for line in facts)
    assert parse_plan(text).objective.input_tokens.target == 131072  # the server's small window weakens nothing


@pytest.mark.parametrize(
    ("model", "profile"),
    [("moonshotai/Kimi-K3", "kimi-k3"), ("kimi-k3", "kimi-k3"), ("smol", "generic-vllm")],
)
async def test_the_profile_follows_the_model(model: str, profile: str) -> None:
    async with answering([model]) as base_url:
        assert parse_plan(await init(base_url)).profile == profile


async def test_a_gateway_is_kept() -> None:
    async with answering() as base_url:
        assert parse_plan(await init(base_url, gateway_url="http://g:1")).service.gateway_url == "http://g:1"
        assert parse_plan(await init(base_url)).service.gateway_url is None


@pytest.mark.parametrize(
    ("metrics", "kind", "frontend"),
    [
        ('vllm:x{a="1"} 1\npython_info 1\n', "text/plain", "Python"),
        ('vllm:x{a="1"} 1\n# EOF\n', "application/openmetrics-text", "Rust"),
        ("go_info 1\n", "text/plain", "not vLLM's"),
    ],
)
async def test_the_frontends_are_told_apart(metrics: str, kind: str, frontend: str) -> None:
    async with answering(metrics=metrics, metrics_type=kind) as base_url:
        assert f"HTTP frontend: {frontend}" in await init(base_url)


async def test_hostile_names_stay_inside_their_scalars() -> None:
    name = 'x"\nseed: 7 #\u2028\x85{}'
    async with answering([name], version={"version": "1\nseed: 9"}) as base_url:
        plan = parse_plan(await init(base_url))
    assert plan.service.model == name
    assert plan.seed == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_survives_quoting(text: str) -> None:
    assert YAML(typ="safe", pure=True).load("a: " + quoted(text))["a"] == text


async def test_what_cannot_be_asked_is_a_usage_error() -> None:
    async with answering(key="k") as base_url:
        with pytest.raises(SignoffError, match="401"):
            await init(base_url)
    with pytest.raises(SignoffError, match="/v1/models") as refused:
        await init("http://127.0.0.1:9")
    assert refused.value.exit_code == 2
    for url, says in (
        ("127.0.0.1:8000", "must begin with http"),
        ("http://127.0.0.1:99999", "1 to 65535"),
        ("http://[::1", "IPv6"),
        ("http://me:sesame@host", "user name or password"),
        ("http://127.0.0.1:8000/v1", "ends in /v1"),
    ):
        with pytest.raises(SignoffError, match=says) as refused:
            await init(url)
        assert "sesame" not in str(refused.value)
    async with answering() as base_url:
        with pytest.raises(SignoffError, match="--gateway-url"):
            await init(base_url, gateway_url="nginx")
    async with answering({"object": "error"}) as base_url:
        with pytest.raises(SignoffError, match="not a list of models"):
            await init(base_url)
    async with answering() as base_url:
        with pytest.raises(SignoffError, match="generic-vllm"):
            await init(base_url, "no-such-profile")


async def test_a_server_with_a_key_is_asked_with_it_and_the_plan_names_the_variable(monkeypatch) -> None:
    async with answering(key="s3cret") as base_url:
        with pytest.raises(SignoffError, match="--api-key-env"):
            await init(base_url)
        monkeypatch.setenv("SIGNOFF_TEST_KEY", "s3cret")
        text = await init(base_url, api_key_env="SIGNOFF_TEST_KEY", ca_file="ca.pem")
    assert "s3cret" not in text
    service = parse_plan(text).service
    assert (service.api_key_env, service.ca_file) == ("SIGNOFF_TEST_KEY", "ca.pem")


async def test_what_is_made_up_is_marked_as_an_example() -> None:
    async with answering() as base_url:
        lines = (await init(base_url)).splitlines()
    for key in ("concurrency: {target", "input_tokens:", "error_rate:", "failure_rate:"):
        assert any(key in line and "an example" in line for line in lines), key
    for key in UNUSED:
        assert any(key.rpartition(".")[2] in line and "not used yet" in line for line in lines), key


async def test_a_port_that_speaks_no_http_is_a_usage_error() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(SignoffError) as refused:
            await init(f"http://127.0.0.1:{port}")
    assert refused.value.exit_code == 2
