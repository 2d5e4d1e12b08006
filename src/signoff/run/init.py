"""The first plan: the server is asked who it is, and a commented plan is written that a person then completes.

What the server tells goes into comments only, so that a weak server never makes a weak plan. Hold, soak and counts are
the profile's least; target, floor and rates are examples, marked so, which a person replaces by what is wanted."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from signoff.collect.control import Control
from signoff.core.plan import PLAN_SCHEMA, Service
from signoff.core.plan_text import parse_plan
from signoff.core.printable import printable
from signoff.core.profile import Profile
from signoff.core.urls import shown_url, url_fault
from signoff.errors import SignoffError
from signoff.read.scrape import Scrape, read_scrape
from signoff.run.prepare import AS_OPTIONS, LISTED_MAX, ServedModel, ask_models, refuse_address
from signoff.run.profiles import load_profile

K3_WORDS = ("kimi-k3", "kimi_k3", "kimik3")
COMMENT_MAX = 200
UNUSED = "recorded, not used yet"
EXAMPLE = "an example: say what is wanted"


class Told(Struct, frozen=True, kw_only=True):
    """What the server says of itself; empty where it does not."""

    version: str
    models: tuple[ServedModel, ...]
    frontend: str
    facts: tuple[str, ...]


async def init(
    base_url: str,
    profile: str | None = None,
    gateway_url: str | None = None,
    api_key_env: str | None = None,
    ca_file: str | None = None,
) -> str:
    """A commented YAML plan for the server at `base_url`, by the named profile or the one that fits.

    Unreachable, 401, not HTTP, an unknown profile: SignoffError."""
    service = Service(base_url=refuse_address(base_url, AS_OPTIONS), api_key_env=api_key_env, ca_file=ca_file)
    if gateway_url not in (None, "none") and (fault := url_fault(gateway_url or "")):
        raise SignoffError(f"--gateway-url {shown_url(gateway_url or '')}: {fault}", "Give a URL, or none.")
    told = await _ask(service)
    chosen = load_profile(profile or _fitting(told))
    text = _written(replace(service, gateway_url=gateway_url), told, chosen, profile or chosen.name)
    parse_plan(text, "the new plan")
    return text


async def _ask(service: Service) -> Told:
    async with Control(service) as control:
        models = await ask_models(control, AS_OPTIONS)
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


def _scalar(text: str | None) -> str:
    return "null" if text is None else _quoted(text)


def _comment(text: str) -> str:
    """Words of the server inside a comment: one line, no control characters."""
    return printable(text[:COMMENT_MAX])


def _written(service: Service, told: Told, profile: Profile, name: str) -> str:
    model = told.models[0] if told.models else None
    served = ", ".join(f"{m.id} (window {m.max_model_len or 'not said'})" for m in told.models[:LISTED_MAX])
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
        f"  base_url: {_quoted(service.base_url)}",
        f"  gateway_url: {_scalar(service.gateway_url)}   # null: not said; none: there is none",
        f"  model: {_quoted(model.id) if model is not None and len(told.models) == 1 else 'null'}",
        "  metrics: []              # /metrics of every server; empty: <base_url>/metrics",
        f"  gpu_metrics: []          # {UNUSED}: DCGM exporters",
        f"  api_key_env: {_scalar(service.api_key_env)}   # name of the environment variable with the key, not the key",
        f"  ca_file: {_scalar(service.ca_file)}",
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
start: null                # {UNUSED}: how Signoff may start the service itself
gates: [environment, capacity, prefix, agent]
objective:
  concurrency: {{target: {target}, floor: {floor}, hold_s: {floors.hold_s:g}}}   # {EXAMPLE}
  input_tokens: {{target: {tokens}, floor: {max(1, tokens // 4)}}}   # {EXAMPLE}
  limits:                  # fill in: a limit that is not said leaves its finding inconclusive
    ttft_ms_p99: null
    itl_ms_p99: null
    queue_ms_p99: null
    error_rate: 0.01       # share of requests; {EXAMPLE}
    preempted_share: null
load:
  mix: null                # {UNUSED}: the agent mix
  reuse_share: null        # share of prompt tokens that is a shared prefix, 0 to 1
  long_input: {{}}
  concurrency: {{}}
  soak: {{hours: {floors.soak_s / 3600:.6g}, concurrency: null}}   # the profile's least is {floors.soak_s:g} s
prefix: {{rounds: {floors.prefix_rounds}, prompt_tokens: null}}
agent:
  packs: []
  matrix: pairwise
  failure_rate: {{limit: 0.05, confidence: 0.95, attempts_max: {max(floors.agent_attempts, 100)}}}   # limit: {EXAMPLE}
  critical: [one_tool, choose_tool, second_turn, structured, fallback]
  caller: null             # {UNUSED}: the team's own agent
controls: []               # {UNUSED}: what bounds a known weakness
caps: {{requests: null, tokens: null, minutes: null}}
review:                    # who signs; items: checklist item (1 to 13, or all) to reviewer
  runner: null
  threshold: 1
  roles: {{}}                # {UNUSED}
  items: {{}}
triggers: {{throttle: null, scale: null, rollback: null}}
rollback: {{to: null, how: null, minutes: null, rehearsed: null}}   # minutes, rehearsed: {UNUSED}
retest_of: null            # {UNUSED}
seed: 1""".split("\n")
