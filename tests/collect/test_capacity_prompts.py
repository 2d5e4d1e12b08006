"""Prompts of the capacity stages: exact lengths, no shared beginnings, quickly made."""

import json
import time

import msgspec
import pytest

from signoff.collect.capacity import prompts
from signoff.collect.capacity.text import Corpus, calibrate, fitted
from signoff.collect.control import Answer


class Counting:
    """A tokeniser endpoint that counts words as so many tokens each, with a template of seven tokens."""

    def __init__(self, per_word=2, most=10**9, ok=True):
        self.per_word, self.most, self.ok, self.calls = per_word, most, ok, 0

    async def post(self, path, body, timeout_s=60.0):
        self.calls += 1
        assert path == "/tokenize"
        text = " ".join(str(m.get("content") or "") for m in json.loads(body)["messages"])
        count = 7 + self.per_word * len(text.split())
        if not self.ok or count > self.most:
            return Answer(status=400, body=b"{}")
        return Answer(status=200, body=msgspec.json.encode({"count": count, "tokens": [1] * count}))


@pytest.fixture(scope="module")
def corpus():
    return Corpus(1, "run")


def build(corpus, kind="filler"):
    fact = prompts.needle("run", 1)
    return lambda count: prompts.long_messages(kind, corpus, count, fact, "run", kind)


@pytest.mark.parametrize("kind", prompts.KINDS)
@pytest.mark.parametrize("tokens", [300, 4096, 100_000])
async def test_a_prompt_is_as_long_as_asked_and_never_longer(corpus, kind, tokens):
    control = Counting()
    ruler = await calibrate(control, "m", corpus)
    control.calls = 0
    words, count = await fitted(control, "m", ruler, build(corpus, kind), tokens)
    assert tokens - 4 <= count <= tokens
    assert control.calls <= 4
    assert words > 0


async def test_a_server_that_does_not_count_gets_a_guess_and_no_count(corpus):
    control = Counting(ok=False)
    ruler = await calibrate(control, "m", corpus)
    assert ruler.exact is False
    words, count = await fitted(control, "m", ruler, build(corpus), 2200)
    assert (words, count) == (1000, None)


async def test_a_server_that_refuses_to_count_a_long_prompt_still_gets_one_as_long(corpus):
    control = Counting(most=3000)
    ruler = await calibrate(control, "m", corpus)
    words, count = await fitted(control, "m", ruler, build(corpus), 8000)
    assert count is None
    assert words > 3500


async def test_a_prompt_too_long_even_without_words_says_so(corpus):
    control = Counting(per_word=50)
    ruler = await calibrate(control, "m", corpus)
    words, count = await fitted(control, "m", ruler, build(corpus), 100)
    assert words == 0
    assert count > 100


def test_a_prompt_of_131072_tokens_is_made_in_half_a_second(corpus):
    made = build(corpus)
    begun = time.perf_counter()
    for _ in range(5):
        prompts.body_of("m", made(60_000), 16)
    assert (time.perf_counter() - begun) / 5 < 0.5


def test_slices_have_their_words_and_differ_by_seed(corpus):
    assert len(corpus.slice(50_000, "a").split()) == 50_000
    assert corpus.slice(0, "a") == ""
    assert corpus.slice(100, "a") == corpus.slice(100, "a") != corpus.slice(100, "b")
    assert corpus.slice(200, "a").startswith(corpus.slice(100, "a"))


def test_no_two_long_prompts_begin_alike_and_another_run_begins_otherwise(corpus):
    fact = prompts.needle("x")
    begin = {
        prompts.long_messages(kind, corpus, 50, fact, run, kind, n)[0]["content"][:16]
        for kind in prompts.KINDS
        for run in ("run-1", "run-2")
        for n in range(3)
    }
    assert len(begin) == 12


def test_turns_share_their_system_prompt_and_nothing_else(corpus):
    fact = prompts.needle("x")
    one, two = (prompts.turn_messages(corpus, 100, 100, fact, "run", "stage", n) for n in (1, 2))
    assert one[0] == two[0]
    assert one[1]["content"][:16] != two[1]["content"][:16]
    other = prompts.turn_messages(corpus, 100, 100, fact, "other", "stage", 1)
    assert other[0]["content"][:16] != one[0]["content"][:16]
    alone, again = (prompts.turn_messages(corpus, 0, 100, fact, "run", "stage", n) for n in (1, 2))
    assert alone[0]["content"][:16] != again[0]["content"][:16]


@pytest.mark.parametrize("kind", prompts.KINDS)
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_the_fact_stands_in_the_prompt_and_is_asked_for_at_its_end(corpus, kind, count):
    fact = prompts.needle("x")
    messages = prompts.long_messages(kind, corpus, count, fact, "run")
    text = "\n".join(str(m["content"]) for m in messages)
    assert text.count(fact.note) == 1
    assert messages[-1]["content"].endswith(fact.question)


def test_an_agents_long_input_grows_by_tool_results(corpus):
    messages = prompts.long_messages(prompts.AGENT, corpus, 5000, prompts.needle("x"), "run")
    calls = [m["tool_calls"][0]["id"] for m in messages if m["role"] == "assistant"]
    results = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert calls == results
    assert len(calls) >= 7


def test_sentinels_share_all_but_their_last_line(corpus):
    one, two = (prompts.sentinel_messages(corpus, 100, prompts.needle("x"), "run", 0, turn) for turn in (1, 2))
    assert one[0] == two[0]
    assert one[1] != two[1]


def test_the_output_is_fixed():
    body = json.loads(prompts.body_of("m", [], 16, thinking_off={"reasoning_effort": "none"}, tools=True))
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (16, 16, True)
    assert body["stream_options"] == {"include_usage": True}
    assert body["reasoning_effort"] == "none"
    assert body["tool_choice"] == "none"
