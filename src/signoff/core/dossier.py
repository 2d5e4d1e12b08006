"""Dossier: all that a bundle holds, as the judge reads it. Judging is a pure function of this."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from signoff.core.events import StageFinished, StageStarted, StoredEvent
from signoff.core.evidence import Evidence
from signoff.core.metrics import MetricTable
from signoff.core.plan import Plan
from signoff.core.profile import Profile
from signoff.core.record import Record


class Dossier(Struct, frozen=True, kw_only=True):
    plan: Plan
    profile: Profile
    evidence: Sequence[Evidence]
    records: Sequence[Record]
    metrics: Mapping[str, MetricTable]
    events: Sequence[StoredEvent]
    blob: Callable[[str], bytes]
    """Raw bytes by SHA-256 digest; KeyError when the bundle lacks them."""
    plan_digest: str = ""
    evidence_digest: str = ""

    def of_kind(self, kind: str, where: str = "") -> list[Evidence]:
        """Evidence of one kind, observed or missing, oldest first."""
        return [e for e in self.evidence if e.kind == kind and (not where or e.where == where)]

    def of_stage(self, stage: str) -> list[Record]:
        """Records of `stage` and of its steps, in order of being appended."""
        return [r for r in self.records if r.stage == stage or r.stage.startswith(stage + ".")]

    def started(self, stage: str) -> StageStarted | None:
        return next((e for e in self.events if isinstance(e, StageStarted) and e.stage == stage), None)

    def finished(self, stage: str) -> StageFinished | None:
        return next((e for e in self.events if isinstance(e, StageFinished) and e.stage == stage), None)
