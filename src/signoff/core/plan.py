"""Plan: what is to be accepted, by whom, under which load and limits. Frozen and hashed into the run.

Keys are the plan file's keys, spelled the same. `None` is "not said": a limit that is not said makes its finding
inconclusive, never a pass. Loads are concurrent requests, inputs are tokens.
"""

from typing import Literal

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.words import Gate

PLAN_SCHEMA = "signoff/plan/1"
VIA = Literal["local", "ssh", "kubectl", "docker", "podman", "slurm", "ray", "file"]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the plan."""


class Service(Part, frozen=True, kw_only=True):
    base_url: str
    """Without `/v1`: `http://127.0.0.1:8000`."""
    gateway_url: str | None = None
    """`None`: not said. `"none"`: there is none, and gateway checks are not applicable."""
    model: str | None = None
    metrics: tuple[str, ...] = ()
    """URLs of `/metrics`; empty means `<base_url>/metrics`."""
    gpu_metrics: tuple[str, ...] = ()
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; never the key."""
    ca_file: str | None = None
    exclusive: bool = True
    """Whether the server carries no other traffic during the run."""
    simulated: bool = False


class Node(Part, frozen=True, kw_only=True):
    name: str
    via: VIA = "local"
    address: str | None = None
    """`ssh`: host; `file`: folder; `local`: another root folder to look at, `None` for this machine's own."""
    container: str | None = None
    logs: tuple[str, ...] = ()
    """Launch logs on that node, all ranks."""


class Start(Part, frozen=True, kw_only=True):
    """How Signoff may start the service itself."""

    command: tuple[str, ...]
    stop: tuple[str, ...] = ()
    ready_s: float = 3600.0
    boots: int = 2


class Concurrency(Part, frozen=True, kw_only=True):
    target: int
    floor: int
    hold_s: float = 120.0


class InputTokens(Part, frozen=True, kw_only=True):
    target: int
    floor: int


class Limits(Part, frozen=True, kw_only=True):
    ttft_ms_p99: float | None = None
    itl_ms_p99: float | None = None
    queue_ms_p99: float | None = None
    error_rate: float | None = None
    """Share of requests, 0 to 1."""
    preempted_share: float | None = None
    """Preemptions per request, 0 to 1."""


class Objective(Part, frozen=True, kw_only=True):
    concurrency: Concurrency
    input_tokens: InputTokens
    limits: Limits = Limits()


class LongInput(Part, frozen=True, kw_only=True):
    output_tokens: int | None = None
    steps: tuple[int, ...] = ()
    """Input lengths in tokens; empty: a ladder of doublings up to the target."""


class ConcurrencyLoad(Part, frozen=True, kw_only=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    steps: tuple[int, ...] = ()
    """Concurrent requests; empty: doublings from 1, floor and target included."""


class SoakLoad(Part, frozen=True, kw_only=True):
    hours: float | None = None
    concurrency: int | None = None
    idle_s: float | None = None


class Load(Part, frozen=True, kw_only=True):
    mix: str | None = None
    """Name of the agent mix; `None`: the profile's."""
    reuse_share: float | None = None
    """Share of prompt tokens that is a shared prefix, 0 to 1."""
    long_input: LongInput = LongInput()
    concurrency: ConcurrencyLoad = ConcurrencyLoad()
    soak: SoakLoad = SoakLoad()


class Prefix(Part, frozen=True, kw_only=True):
    rounds: int | None = None
    prompt_tokens: int | None = None


class FailureRate(Part, frozen=True, kw_only=True):
    limit: float | None = None
    confidence: float = 0.95
    attempts_max: int | None = None


class Agent(Part, frozen=True, kw_only=True):
    packs: tuple[str, ...] = ()
    matrix: Literal["pairwise", "full"] = "pairwise"
    failure_rate: FailureRate = FailureRate()
    critical: tuple[str, ...] = ("one_tool", "choose_tool", "second_turn", "structured", "fallback")
    """Kinds of sample whose failure bounds the verdict."""
    caller: tuple[str, ...] | None = None


class Control(Part, frozen=True, kw_only=True):
    bounds: str
    at: str
    setting: Value = None
    proved_by: str | None = None


class Caps(Part, frozen=True, kw_only=True):
    requests: int | None = None
    tokens: int | None = None
    minutes: float | None = None


class Review(Part, frozen=True, kw_only=True):
    runner: str | None = None
    threshold: int = 1
    roles: dict[str, tuple[str, ...]] = {}
    items: dict[str, str] = {}
    """Checklist item (1 to 13, or `all`) to reviewer."""


class Triggers(Part, frozen=True, kw_only=True):
    throttle: str | None = None
    scale: str | None = None
    rollback: str | None = None


class Rollback(Part, frozen=True, kw_only=True):
    to: str | None = None
    """The image or release that is rolled back to."""
    how: str | None = None
    minutes: float | None = None
    rehearsed: str | None = None


class RetestOf(Part, frozen=True, kw_only=True):
    bundle: str
    """Digest of the bundle whose failure this run repeats."""
    changed: str
    """The one declared change."""


ALL_GATES = (Gate.ENVIRONMENT, Gate.CAPACITY, Gate.PREFIX, Gate.AGENT)


class Plan(Part, frozen=True, kw_only=True):
    schema: Literal["signoff/plan/1"]
    name: str
    profile: str
    service: Service
    nodes: tuple[Node, ...] = ()
    start: Start | None = None
    gates: tuple[Gate, ...] = ALL_GATES
    objective: Objective
    load: Load = Load()
    prefix: Prefix = Prefix()
    agent: Agent = Agent()
    controls: tuple[Control, ...] = ()
    caps: Caps = Caps()
    review: Review = Review()
    triggers: Triggers = Triggers()
    rollback: Rollback = Rollback()
    retest_of: RetestOf | None = None
    seed: int = 1

    def metrics_urls(self) -> tuple[str, ...]:
        """Where the server metrics are scraped."""
        return self.service.metrics or (self.service.base_url.rstrip("/") + "/metrics",)
