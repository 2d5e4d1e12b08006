"""What a dossier holds of the capacity stages, as the checks read it."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from signoff.core.dossier import Dossier
from signoff.core.events import StageFinished, StageStarted
from signoff.core.evidence import Value
from signoff.core.metrics import MetricTable
from signoff.core.record import Record
from signoff.core.words import Gate, State
from signoff.judge.capacity import window
from signoff.judge.capacity.honest import LACKS, honest
from signoff.judge.capacity.level import Level, level
from signoff.judge.capacity.next_step import CAP, CLIMB, hold_s, requests_min
from signoff.judge.capacity.sizes import Sizes, sizes
from signoff.read.completion import read_completion
from signoff.read.launch_log import LaunchLog, read_launch_log
from signoff.read.stream import read_stream

CITED_MAX = 8
DIGITS_MAX = 12
NO_EVENT, KILLED = "no_event", "killed"
"""What stopped a stage of which there are requests and no word of its begin; and one that has no end."""


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
    found = window.tables(dossier)
    log, log_digest = _log(dossier, "before")
    after, after_digest = _log(dossier, "after")
    size = sizes(dossier.plan, dossier.profile, _window(dossier, log))
    by_stage: dict[str, list[Record]] = {}
    for record in honest([r for r in dossier.records if r.gate is Gate.CAPACITY], size):
        by_stage.setdefault(record.stage, []).append(record)
    return Seen(
        dossier=dossier,
        sizes=size,
        tables=found,
        levels=_levels(dossier, by_stage, found, log, size),
        by_stage=by_stage,
        log=log,
        log_digest=log_digest,
        log_after=after,
        log_after_digest=after_digest,
    )


class _Model(Struct):
    id: str
    max_model_len: int | None = None


class _Models(Struct):
    data: list[_Model]


def _window(dossier: Dossier, log: LaunchLog | None) -> int | None:
    """The window by the server's own list of models, else by its launch log, else as the loop noted it."""
    for card in dossier.of_kind("models"):
        try:
            told = msgspec.json.decode(dossier.blob(card.digest), type=_Models).data if card.digest else []
        except (KeyError, msgspec.DecodeError):
            continue
        named = [m for m in told if m.id == dossier.plan.service.model] or (told if len(told) == 1 else [])
        if named and named[0].max_model_len and named[0].max_model_len > 0:
            return named[0].max_model_len
    if log is not None and log.max_model_len:
        return log.max_model_len
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
    dossier: Dossier,
    by_stage: dict[str, list[Record]],
    tables: Sequence[MetricTable],
    log: LaunchLog | None,
    size: Sizes,
) -> tuple[Level, ...]:
    """Every load of which there is a word or a request, in the order in which they were held."""
    begun = {e.stage: e.at_ns for e in reversed(dossier.events) if isinstance(e, StageStarted)}
    sent = {stage: min(r.sent_ns for r in own) for stage, own in by_stage.items()}
    stages = [stage for stage in {**sent, **begun} if streams_of(stage) is not None]
    stages.sort(key=lambda stage: (begun.get(stage, sent.get(stage, 0)), stage))
    return tuple(_level(dossier, stage, stage in begun, by_stage.get(stage, []), tables, log, size) for stage in stages)


def streams_of(stage: str) -> int | None:
    """The load that a stage holds, by its name; `None` for a stage that holds none."""
    for prefix in (CLIMB + ".", CAP + "."):
        if stage.startswith(prefix):
            return whole(stage.removeprefix(prefix).split(".")[0])
    return None


def _level(
    dossier: Dossier,
    stage: str,
    begun: bool,
    records: list[Record],
    tables: Sequence[MetricTable],
    log: LaunchLog | None,
    size: Sizes,
) -> Level:
    """What the load had to see stands in plan and profile; the loop's own word is not taken for it."""
    finished, streams = dossier.finished(stage), streams_of(stage) or 0
    least = requests_min(streams, dossier.plan, dossier.profile)
    return level(
        stage,
        streams,
        [r for r in records if r.labels.get("arm") != "probe"],
        tables,
        dossier.plan.objective.limits,
        requests_min=least,
        samples_min=min(dossier.profile.floors.latency_samples, least),
        input_tokens=size.input_tokens,
        hold_s=size.hold_s if stage.startswith(CAP) else hold_s(streams, size, dossier.plan),
        slots=argument(log, "max_num_seqs"),
        step_tokens=log.max_num_batched_tokens if log is not None else None,
        stopped=NO_EVENT if not begun else finished.stopped if finished is not None else KILLED,
    )


def whole(text: str) -> int | None:
    """A whole number in ASCII digits; other scripts' digits and endless ones are none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else None


def argument(log: LaunchLog | None, name: str) -> int | None:
    """A whole number of the launch, from its arguments or its resolved configuration."""
    if log is None:
        return None
    for place in (log.arguments, log.engine_config):
        value = whole(place.get(name, place.get(name.replace("_", "-"), "")))
        if value is not None:
            return value
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
    """Whether the answer holds the fact that was asked for; an answer that never came holds none. `None`: not asked,
    failed, or not kept."""
    expected = record.labels.get("expect")
    if expected and LACKS in record.labels:
        return False
    if not expected or record.state is not State.OK:
        return None
    text = answer_text(dossier, record)
    return None if text is None else expected in text


def cited(records: Sequence[Record]) -> tuple[str, ...]:
    """The first few records as citations."""
    return tuple(f"record:{r.id}" for r in records[:CITED_MAX])


def metrics_cited(tables: Sequence[MetricTable], from_ns: int, to_ns: int) -> tuple[str, ...]:
    return tuple(f"metrics:{t.server}@{from_ns}-{to_ns}" for t in tables) if to_ns else ()
