import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.plan_text import PlanError, parse_plan
from signoff.errors import SignoffError

GOOD = """schema: signoff/plan/1
name: trial
profile: vllm-cpu
service:
  base_url: http://127.0.0.1:8000
objective:
  concurrency: {target: 8, floor: 4, hold_s: 10}
  input_tokens: {target: 4096, floor: 1024}
"""


def test_a_small_plan_is_read_with_its_defaults():
    plan = parse_plan(GOOD)
    assert plan.objective.concurrency.target == 8
    assert plan.objective.limits.ttft_ms_p99 is None
    assert plan.gates == ("environment", "capacity", "prefix", "agent")
    assert plan.metrics_urls() == ("http://127.0.0.1:8000/metrics",)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("profile:", "profil:"), 3, ["unknown key `profil`", "Did you mean `profile`?"]),
        (("floor: 4", "flor: 4"), 7, ["unknown key `objective.concurrency.flor`", "`floor`"]),
        (("target: 8", "target: eight"), 7, ["objective.concurrency.target", "`int`", "found `eight`"]),
        (("floor: 4", "floor: 9"), 7, ["objective.concurrency", "at most target"]),
        (("hold_s: 10", "hold_s: 0"), 7, ["hold_s", "more than 0"]),
        (("base_url: http:", "base_url: ftp:"), 5, ["service.base_url", "http://"]),
        (("127.0.0.1:8000", "127.0.0.1:99999"), 5, ["service.base_url", "65535"]),
        (("127.0.0.1:8000", "[::1"), 5, ["service.base_url", "cannot be read"]),
        (("hold_s: 10", "hold_s: .inf"), 7, ["hold_s", "can be measured"]),
        (("service:", "agent: {failure_rate: {limit: 1, confidence: 0.9}}\nservice:"), 4, ["failure_rate.limit"]),
        (("service:", "agent: {failure_rate: {limit: 0.1, confidence: 1}}\nservice:"), 4, ["confidence"]),
        (("service:", "review: {items: {14: me}}\nservice:"), 4, ["review.items", "1 to 13"]),
        (("service:", "prefix: {rounds: 0}\nservice:"), 4, ["prefix.rounds"]),
        (("signoff/plan/1", "signoff/plan/9"), 1, ["schema", "signoff/plan/9"]),
        (("name: trial", "name: trial\nname: again"), 3, ["not readable YAML", "duplicate"]),
        (("service:", "gates: [capacity, speed]\nservice:"), 4, ["gates[1]", "speed"]),
    ],
)
def test_a_wrong_plan_names_file_line_key_and_what_is_allowed(change, line, words):
    with pytest.raises(PlanError) as caught:
        parse_plan(GOOD.replace(*change), "k3.yaml")
    assert str(caught.value).startswith(f"k3.yaml:{line}:")
    assert caught.value.exit_code == 2
    for word in words:
        assert word in str(caught.value)


def test_a_key_written_into_the_address_is_not_said_again():
    with pytest.raises(PlanError) as caught:
        parse_plan(GOOD.replace("127.0.0.1:8000", "user:secretpw@127.0.0.1:8000"))
    assert "secretpw" not in str(caught.value)
    assert "user name or password" in str(caught.value)


@given(st.text(max_size=400))
def test_no_text_crashes_the_parser(text):
    with pytest.raises(SignoffError):
        parse_plan(text)
