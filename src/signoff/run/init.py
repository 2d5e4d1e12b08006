"""The first plan: the server is asked who it is, and a commented plan is written that a person then completes.

What the server tells goes into comments only; demands come from the profile, so that a weak server never makes a weak
plan."""

import msgspec
from msgspec import Struct

from signoff.collect.control import Control
from signoff.core.plan import PLAN_SCHEMA, Service
from signoff.core.plan_text import parse_plan
from signoff.core.profile import Profile
from signoff.errors import SignoffError
from signoff.read.scrape import Scrape, read_scrape
from signoff.run.prepare import ServedModel, ask_models
from signoff.run.profiles import load_profile

K3_WORDS = ("kimi-k3", "kimi_k3", "kimik3")
COMMENT_MAX = 200


class Told(Struct, frozen=True, kw_only=True):
    """What the server says of itself; empty where it does not."""

    version: str
    models: tuple[ServedModel, ...]
    frontend: str
    facts: tuple[str, ...]


async def init(base_url: str, profile: str | None = None, gateway_url: str | None = None) -> str:
    """A commented YAML plan for the server at `base_url`, by the named profile or the one that fits.

    Unreachable, 401, not HTTP, an unknown profile: SignoffError."""
    base_url = base_url.rstrip("/").removesuffix("/v1")
    if not base_url.startswith(("http://", "https://")):
        raise SignoffError(f"--base-url {base_url[:200]}: not a URL", "It begins with http:// or https://.")
    told = await _ask(Service(base_url=base_url))
    chosen = load_profile(profile or _fitting(told))
    text = _written(base_url, told, chosen, profile or chosen.name, gateway_url)
    parse_plan(text, "the new plan")
    return text


async def _ask(service: Service) -> Told:
    async with Control(service) as control:
        models = await ask_models(control)
        version = await control.get("/version")
        metrics = await control.get("/metrics")
    scrape = read_scrape(metrics.body) if metrics.ok else None
    return Told(
        version=_version(version.body) if version.ok else "",
        models=tuple(models),
        frontend=_frontend(metrics.headers.get("content-type", ""), scrape),
        facts=tuple(_facts(scrape)),
    )


def _version(body: bytes) -> str:
    try:
        told = msgspec.json.decode(body, type=dict[str, str]).get("version", "")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return told[:COMMENT_MAX]


def _frontend(content_type: str, scrape: Scrape | None) -> str:
    """vLLM has two HTTP frontends; the one in Rust exposes OpenMetrics, and no series of the Python process."""
    if scrape is None or not any(key.startswith("vllm:") for key in scrape.series):
        return "not vLLM's, or its metrics are hidden"
    if any(key.startswith(("python_info", "process_start_time_seconds")) for key in scrape.series):
        return "Python"
    return "Rust" if "openmetrics" in content_type else "Python, several processes"


def _facts(scrape: Scrape | None) -> list[str]:
    """The server's own cache configuration, for the reader of the plan."""
    wanted = ("enable_prefix_caching", "block_size", "cache_hit_alignment_tokens", "kv_cache_size_tokens")
    for key in scrape.series if scrape is not None else ():
        if key.startswith("vllm:cache_config_info{"):
            pairs = dict(part.split("=", 1) for part in key[key.index("{") + 1 : -1].split(",") if "=" in part)
            return [f"{name} {pairs[name]}" for name in wanted if name in pairs]
    return []


def _fitting(told: Told) -> str:
    """The profile for what is served: Kimi K3's for a model of that name, a laboratory's for a CPU build."""
    names = " ".join(model.id for model in told.models).lower()
    if any(word in names for word in K3_WORDS):
        return "kimi-k3"
    return "vllm-cpu" if "cpu" in told.version else "generic-vllm"


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar; what is not plain ASCII is escaped, so that no name of a server ends it early."""
    plain = (c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08X}" for c in text)
    return '"' + "".join(plain) + '"'


def _comment(text: str) -> str:
    """Words of the server inside a comment: one line, no control characters."""
    return "".join(c if c.isprintable() else " " for c in text)[:COMMENT_MAX]


def _written(base_url: str, told: Told, profile: Profile, name: str, gateway_url: str | None) -> str:
    model = told.models[0] if told.models else None
    served = ", ".join(f"{m.id} (window {m.max_model_len or 'not said'})" for m in told.models)
    laboratory = profile.scope == "laboratory"
    target, floor = (4, 2) if laboratory else (64, 32)
    tokens = 2048 if laboratory else min(131072, profile.context_tokens or 131072)
    lines = [
        f"schema: {PLAN_SCHEMA}",
        f"name: {_quoted(_plan_name(model))}",
        f"profile: {_quoted(name)}   # {_comment(profile.title)}; {profile.status}, checked on {profile.checked_on}",
        "",
        "# What the server told of itself when this file was written; nothing here is a demand.",
        f"#   vLLM {_comment(told.version) or 'version not told'}, HTTP frontend: {_comment(told.frontend)}",
        f"#   models: {_comment(served) or 'none'}",
        *(f"#   {_comment(fact)}" for fact in told.facts),
        "service:",
        f"  base_url: {_quoted(base_url)}",
        f"  gateway_url: {_quoted(gateway_url) if gateway_url else 'null'}   # null: not said; none: there is none",
        f"  model: {_quoted(model.id) if model is not None and len(told.models) == 1 else 'null'}",
        "  metrics: []              # /metrics of every server; empty: <base_url>/metrics",
        "  gpu_metrics: []          # DCGM exporters",
        "  api_key_env: null        # name of the environment variable with the key, never the key",
        "  ca_file: null",
        "  exclusive: true          # no other traffic while the run measures",
        f"  simulated: {'true' if profile.scope == 'simulated' else 'false'}",
    ]
    return "\n".join([*lines, *_demands(profile, target, floor, tokens), ""])


def _plan_name(model: ServedModel | None) -> str:
    words = "".join(c if c.isalnum() or c in "-._" else "-" for c in (model.id if model is not None else "service"))
    return f"{words[:60].strip('-')}-acceptance"


def _demands(profile: Profile, target: int, floor: int, tokens: int) -> list[str]:
    floors = profile.floors
    return f"""\
nodes:                     # every node; logs: the whole launch log of every rank
  - {{name: node-1, via: local, address: null, container: null, logs: []}}
start: null                # how Signoff may start the service itself; null: read what the operator recorded
gates: [environment, capacity, prefix, agent]
objective:
  concurrency: {{target: {target}, floor: {floor}, hold_s: {floors.hold_s:g}}}   # requests at once
  input_tokens: {{target: {tokens}, floor: {max(1, tokens // 4)}}}
  limits:                  # fill in: a limit that is not said leaves its finding inconclusive
    ttft_ms_p99: null
    itl_ms_p99: null
    queue_ms_p99: null
    error_rate: 0.01
    preempted_share: null
load:
  mix: null                # agent mix; null: the profile's
  reuse_share: null        # share of prompt tokens that is a shared prefix, 0 to 1
  long_input: {{}}
  concurrency: {{}}
  soak: {{hours: {floors.soak_s / 3600:.6g}, concurrency: null}}   # the profile's least is {floors.soak_s:g} s
prefix: {{rounds: {floors.prefix_rounds}, prompt_tokens: null}}
agent:
  packs: []
  matrix: pairwise
  failure_rate: {{limit: 0.05, confidence: 0.95, attempts_max: {max(floors.agent_attempts, 100)}}}
  critical: [one_tool, choose_tool, second_turn, structured, fallback]
  caller: null
controls: []
caps: {{requests: null, tokens: null, minutes: null}}
review:                    # who signs; items: checklist item (1 to 13, or all) to reviewer
  runner: null
  threshold: 1
  roles: {{}}
  items: {{}}
triggers: {{throttle: null, scale: null, rollback: null}}
rollback: {{to: null, how: null, minutes: null, rehearsed: null}}
retest_of: null
seed: 1""".split("\n")
