import pytest

from signoff.errors import SignoffError
from signoff.run.prepare import ServedModel, choose, prepare

PLAN = """schema: signoff/plan/1
name: trial
profile: kimi-k3
service: {{base_url: "http://127.0.0.1:9"}}
nodes: [{{name: n, via: local, logs: [{log}]}}]
objective:
  concurrency: {{target: 2, floor: 1}}
  input_tokens: {{target: 512, floor: 128}}
"""


async def test_an_architecture_that_the_profile_does_not_cover_is_refused_before_anything_is_asked(tmp_path):
    log = tmp_path / "vllm.log"
    log.write_text("(APIServer pid=1) INFO 12-01 03:00:00 [model.py:600] Resolved architecture: LlamaForCausalLM\n")
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(log=log))
    with pytest.raises(SignoffError, match=r"does not cover the served architecture LlamaForCausalLM") as caught:
        await prepare(plan)
    assert caught.value.exit_code == 2


async def test_a_covered_or_unknown_architecture_goes_on_to_the_service(tmp_path):
    log = tmp_path / "vllm.log"
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(log=log))
    for text in ("", "Resolved architecture: KimiK3ForConditionalGeneration\n"):
        log.write_text(text)
        with pytest.raises(SignoffError, match="Start the service"):
            await prepare(plan)


def test_the_only_model_is_chosen_and_several_must_be_named():
    one, two = ServedModel(id="a"), ServedModel(id="b")
    assert choose([one], None) is one
    assert choose([one, two], "b") is two
    with pytest.raises(SignoffError, match="serves 2 models"):
        choose([one, two], None)
    with pytest.raises(SignoffError, match="does not serve `c`"):
        choose([one], "c")
