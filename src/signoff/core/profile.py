"""Profile: what a model's official recipe demands. Dated data; the resolved copy goes into the bundle and the hash.

Profile
  sources     texts the demands were read from, with date and digest
  chain       links that must be proved, each from independent sources
  launch      flags, environment and parsers per variant
  cache       alignment units and retention rule of the prefix cache
  floors      minimum soak, hold times and sample counts
"""

from typing import Literal

from msgspec import Struct

from signoff.core.evidence import Value

SourceClass = Literal[
    "recipe", "vendor_document", "release_note", "merged_change", "unmerged_change", "community_report"
]
DEMANDING_CLASSES = ("recipe", "vendor_document", "release_note", "merged_change")
"""Only these can satisfy or make a demand; the others may raise a finding and never clear one."""


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SourceText(Strict, frozen=True, kw_only=True):
    id: str
    title: str
    url: str
    version: str
    """Commit, release or edition that was read."""
    read_on: str
    """ISO date."""
    source_class: SourceClass
    digest: str = ""
    """SHA-256 of the text that was read; empty when only the URL is known."""


class Link(Strict, frozen=True, kw_only=True):
    """One link of the chain."""

    name: str
    """`driver`, `libcuda`, `cuda_runtime`, `cuda_build`, `image`, `vllm_build`, `gpu`, `process`, ..."""
    demand: dict[str, Value]
    """What is demanded, by rule: `at_least`, `major`, `equals`, `platform`, `one_of` (names between bars).
    In full: `judge.environment.chain`."""
    sources: int = 2
    """How many independent sources must agree."""
    source: str
    """The `SourceText.id` behind it."""


class LaunchRule(Strict, frozen=True, kw_only=True):
    """What one variant of the recipe sets."""

    name: str
    applies: dict[str, Value] = {}
    """Which service it is for: `platform`, `gpu`, `gpus`, `strategy`, `role`; empty applies to all."""
    flags: dict[str, Value] = {}
    """Option name without dashes to value; `true` for a bare switch."""
    environment: dict[str, str] = {}
    adjustable: tuple[str, ...] = ()
    """Flags and variables that the recipe itself leaves to the operator: another value is listed, nothing more."""
    source: str = ""


class Cache(Strict, frozen=True, kw_only=True):
    units: tuple[int, ...] = ()
    """Alignment units this model is known to have, in tokens; empty: what the server says."""
    retention: Literal["dense", "sparse", "unknown"] = "unknown"
    caching_required: bool = True


class Floors(Strict, frozen=True, kw_only=True):
    soak_s: float
    soak_idle_s: float
    hold_s: float
    holds_after_overload: int = 3
    prefix_rounds: int = 5
    agent_attempts: int = 20
    """Per kind of sample and lane."""
    concurrency_requests: int = 20
    """Requests in the steady window of one load."""
    latency_samples: int = 5


class Profile(Strict, frozen=True, kw_only=True):
    schema: Literal["signoff/profile/1"]
    name: str
    title: str
    status: Literal["pre-release", "stable"]
    scope: Literal["production", "laboratory", "simulated"]
    checked_on: str
    """ISO date on which the sources were last read."""
    architectures: tuple[str, ...]
    """Served architectures it covers; `*` covers any."""
    platforms: tuple[str, ...]
    """`cuda`, `rocm`, `cpu`."""
    sources: tuple[SourceText, ...]
    chain: tuple[Link, ...]
    launch: tuple[LaunchRule, ...] = ()
    forbidden_fallbacks: tuple[str, ...] = ()
    """Fallbacks of the launch log (names of the log reader) that fail."""
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    thinking_efforts: tuple[str, ...] = ()
    cache: Cache
    floors: Floors
    weights_gib: float | None = None
    context_tokens: int | None = None
    hits_required: bool = False
    """Whether prefix hits below expectation bound the verdict at `limited`."""
