"""The plan of the demo: the simulated K3 service, small enough for a coffee, whole enough for every gate."""

from collections.abc import Sequence
from pathlib import Path

from signoff.core.plan import ALL_GATES
from signoff.core.words import Gate

PLAN = """schema: signoff/plan/1
name: {name}
profile: kimi-k3-simulated
service:
  base_url: {base_url}
  gateway_url: {gateway}
  model: kimi-k3
  exclusive: true
  simulated: true
nodes:
  - name: node-1
    via: local
    address: {root}               # the simulated host's root folder, read instead of this machine's own
    container: kimi-k3
    logs: [/var/log/vllm.log]   # inside that root
gates: [{gates}]
objective:
  concurrency: {{target: 32, floor: 16, hold_s: 2}}
  input_tokens: {{target: 131072, floor: 32768}}
  limits: {{ttft_ms_p99: 1500, itl_ms_p99: 100, queue_ms_p99: 1000, error_rate: 0.01, preempted_share: 0.05}}
load:
  reuse_share: 0.5
  long_input: {{output_tokens: 16, steps: [32768, 131072]}}
  concurrency: {{input_tokens: 2048, output_tokens: 64, steps: [8, 16, 32]}}
prefix: {{prompt_tokens: 24576}}   # long enough for the saving to show beside the noise of a busy machine
agent:
  failure_rate: {{limit: 0.1, confidence: 0.95}}
review:
  runner: demo
  items: {{all: demo reviewer}}
triggers:
  throttle: refuse above the accepted concurrency
  scale: queue time above its limit for five minutes
  rollback: error rate above its limit for five minutes
rollback: {{to: previous release, how: redeploy the previous image}}
seed: 1
"""


def demo_plan(base_url: str, gateway_url: str | None, root: Path, name: str, gates: Sequence[Gate] = ()) -> str:
    """The plan's text. The faults of a scenario never show here: what is asked for is the same."""
    return PLAN.format(
        name=f"demo-{name}",
        base_url=base_url,
        gateway=gateway_url or "none",
        root=root,
        gates=", ".join(gates or ALL_GATES),
    )


def gates_for(fault_gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """The environment, since the chain is judged first, and the faults' own gates."""
    return tuple(gate for gate in ALL_GATES if gate is Gate.ENVIRONMENT or gate in fault_gates)
