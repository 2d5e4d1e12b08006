"""Finding: a judgement over evidence. A code, an outcome, typed values and citations; never a sentence.

The sentences of a code stand in `judge.catalogue`, so that every language says the same.
"""

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, Severity


class Finding(Struct, frozen=True, kw_only=True):
    """One judgement."""

    code: str
    """`gate.subject.condition`, a key of the catalogue."""
    gate: Gate
    outcome: Outcome
    bearing: Bearing
    severity: Severity = Severity.FAIL
    """`warn` on a passing finding: listed, the signer acknowledges it. `info`: context."""
    required: bool = True
    """Whether the plan or profile requires it; one that is not never bounds the verdict unless it fails."""
    subject: str = ""
    """Which node, rank, stage, sample, when a code is judged more than once."""
    cause: Cause = Cause.NONE
    phase: Phase = Phase.NA
    scope: Scope | None = None
    """What a `rework` by this finding must rework, when the bearing alone does not say."""
    resource: str = ""
    """The named resource at its bound: `kv`, `slots`, `token_budget`, `link`, `host_memory`, `gpu_memory`."""
    values: dict[str, Value] = {}
    """What was measured; units last in the names."""
    limit: dict[str, Value] = {}
    """What it was compared with."""
    evidence: tuple[str, ...] = ()
    """`sha256:<hex>[#L<line>]`, `record:<id>`, `metrics:<server>@<from_ns>-<to_ns>`, `plan.yaml#<key>`,
    `profile.json#<key>`."""
    items: tuple[int, ...] = ()
    """Checklist items (1 to 13) this speaks to."""
