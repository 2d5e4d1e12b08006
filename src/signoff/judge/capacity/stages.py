"""What a dossier holds of the capacity stages, as the checks read it."""

from collections.abc import Sequence

from msgspec import Struct

from signoff.core.dossier import Dossier
from signoff.core.events import StageFinished, StageStarted
from signoff.core.evidence import Value
from signoff.core.metrics import MetricTable
from signoff.core.record import Record
from signoff.core.words import Gate
from signoff.judge.capacity import window
from signoff.judge.capacity.level import Level, level
from signoff.judge.capacity.next_step import CAP, CLIMB
from signoff.judge.capacity.sizes import Sizes, sizes
from signoff.read.completion import read_completion
from signoff.read.launch_log import LaunchLog, read_launch_log
from signoff.read.stream import read_stream

CITED_MAX = 8


class Seen(Struct, frozen=True, kw_only=True):
    """The dossier, with what several checks need worked out once."""

    dossier: Dossier
    sizes: Sizes
    tables: Sequence[MetricTable]
    levels: tuple[Level, ...]
    """In the order in which they were held."""
    log: LaunchLog | None
    log_digest: str = ""
    log_after: LaunchLog | None = None
    log_after_digest: str = ""

    by_stage: dict[str, list[Record]]
    """This gate's records, in order of being appended."""

    @property
    def records(self) -> list[Record]:
        return [r for own in self.by_stage.values() for r in own]

    def all_of(self, stage: str) -> list[Record]:
        """Requests of a stage and its steps."""
        return [r for name, own in self.by_stage.items() if name == stage or name.startswith(stage + ".") for r in own]

    def of(self, stage: str) -> list[Record]:
        """The same, those left out that only asked whether the service was back."""
        return [r for r in self.all_of(stage) if r.labels.get("arm") != "probe"]


def see(dossier: Dossier) -> Seen:
    tables = window.tables(dossier)
    log, log_digest = _log(dossier, "before")
    after, after_digest = _log(dossier, "after")
    declared = log.max_model_len if log is not None else None
    by_stage: dict[str, list[Record]] = {}
    for record in dossier.records:
        if record.gate is Gate.CAPACITY:
            by_stage.setdefault(record.stage, []).append(record)
    return Seen(
        dossier=dossier,
        sizes=sizes(dossier.plan, dossier.profile, _window(dossier) or declared),
        tables=tables,
        levels=_levels(dossier, by_stage, tables, log),
        by_stage=by_stage,
        log=log,
        log_digest=log_digest,
        log_after=after,
        log_after_digest=after_digest,
    )


def _window(dossier: Dossier) -> int | None:
    started = dossier.started("capacity.load")
    value = started.conditions.get("window_tokens") if started else None
    return value if isinstance(value, int) else None


def _log(dossier: Dossier, when: str) -> tuple[LaunchLog | None, str]:
    """The newest launch log taken then; one that does not say when was taken before."""
    cards = [e for e in dossier.of_kind("launch_log") if e.digest and e.conditions.get("when", "before") == when]
    for card in reversed(cards):
        try:
            return read_launch_log(dossier.blob(card.digest)), card.digest
        except KeyError:
            continue
    return None, ""


def _levels(
    dossier: Dossier, by_stage: dict[str, list[Record]], tables: Sequence[MetricTable], log: LaunchLog | None
) -> tuple[Level, ...]:
    started = [
        e for e in dossier.events if isinstance(e, StageStarted) and e.stage.startswith((CLIMB + ".", CAP + "."))
    ]
    return tuple(_level(dossier, event, by_stage.get(event.stage, []), tables, log) for event in started)


def _level(
    dossier: Dossier,
    started: StageStarted,
    records: list[Record],
    tables: Sequence[MetricTable],
    log: LaunchLog | None,
) -> Level:
    finished = dossier.finished(started.stage)
    least = number(started.conditions, "requests_min", dossier.profile.floors.concurrency_requests)
    own = [r for r in records if r.labels.get("arm") != "probe"]
    return level(
        started.stage,
        number(started.conditions, "streams", 0),
        own,
        tables,
        dossier.plan.objective.limits,
        requests_min=least,
        samples_min=min(dossier.profile.floors.latency_samples, least),
        slots=argument(log, "max_num_seqs"),
        step_tokens=log.max_num_batched_tokens if log is not None else None,
        stopped=finished.stopped if finished is not None else "killed",
    )


def argument(log: LaunchLog | None, name: str) -> int | None:
    """A whole number of the launch, from its arguments or its resolved configuration."""
    if log is None:
        return None
    for place in (log.arguments, log.engine_config):
        text = place.get(name, place.get(name.replace("_", "-"), ""))
        if text.strip().isdigit():
            return int(text)
    return None


def number(conditions: dict[str, Value], name: str, otherwise: int) -> int:
    value = conditions.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def seconds(finished: StageFinished | None, name: str) -> float | None:
    value = finished.conditions.get(name) if finished is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def answer_text(dossier: Dossier, record: Record) -> str | None:
    """What the model said, reasoning and content; `None` when the bytes were not kept."""
    if not record.response_digest:
        return None
    try:
        raw = dossier.blob(record.response_digest)
    except KeyError:
        return None
    answer = read_stream(raw) if record.stream else read_completion(raw)
    return f"{answer.reasoning or ''}\n{answer.content or ''}"


def recalled(dossier: Dossier, record: Record) -> bool | None:
    """Whether the answer holds the fact that was asked for; `None`: not asked, failed, or not kept."""
    expected = record.labels.get("expect")
    if not expected or not record.completion_tokens:
        return None
    text = answer_text(dossier, record)
    return None if text is None else expected in text


def cited(records: Sequence[Record]) -> tuple[str, ...]:
    """The first few records as citations."""
    return tuple(f"record:{r.id}" for r in records[:CITED_MAX])


def metrics_cited(tables: Sequence[MetricTable], from_ns: int, to_ns: int) -> tuple[str, ...]:
    return tuple(f"metrics:{t.server}@{from_ns}-{to_ns}" for t in tables) if to_ns else ()
