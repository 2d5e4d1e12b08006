"""An attempt as judged: the raw body is read again from the bundle, whatever the client made of it."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from signoff.core.codec import from_json
from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence
from signoff.core.record import Record
from signoff.core.sample import Pack, Sample
from signoff.core.words import State
from signoff.judge.agent.failure import Failure, failed, failure_of
from signoff.read.answer import Answer
from signoff.read.completion import read_completion
from signoff.read.stream import read_stream

DIGITS_MAX = 9
"""Digits of a number in a label."""


class Judged(Struct, frozen=True, kw_only=True):
    """One attempt. `answer` is `None` when no body was kept; `unread` says why its failure cannot be told."""

    record: Record
    sample: Sample
    answer: Answer | None = None
    failure: Failure | None = None
    unread: str = ""

    def label(self, name: str) -> str:
        return self.record.labels.get(name, "")

    @property
    def number(self) -> int:
        """Of the attempt within its kind, from 0; -1 when its label is no number."""
        return number_in(self.record, "attempt")

    @property
    def cited(self) -> str:
        return f"record:{self.record.id}"


def pack_of(dossier: Dossier) -> tuple[Pack | None, Evidence | None]:
    """The samples that this run used, from its own evidence."""
    for card in reversed(dossier.of_kind("agent_pack")):
        try:
            pack = from_json(dossier.blob(card.digest), Pack)
        except (KeyError, ValueError, RecursionError):
            continue
        if pack.samples:
            return pack, card
    return None, None


def read_body(record: Record, raw: bytes) -> Answer:
    """The body of a record, by its form; a server that answers a stream with a whole object is read as that."""
    if record.stream and not raw.lstrip().startswith(b"{"):
        return read_stream(raw)
    return read_completion(raw)


def failure_in(record: Record, raw: bytes, pack: Pack) -> Failure | None:
    """What is wrong with an answer, by the sample that its labels name; unknown samples are never right."""
    sample = pack.sample(record.labels.get("sample", ""))
    if sample is None:
        return failed("transport", "the record names no sample of the pack")
    return failure_of(read_body(record, raw), record.state, record.error, sample, pack)


def judged(dossier: Dossier, pack: Pack, stage: str) -> list[Judged]:
    """The attempts of a stage in the order of their numbers; what we ourselves cut short is left out."""
    records = [r for r in dossier.of_stage(stage) if r.state is not State.ABORTED and "attempt" in r.labels]
    return [_judge(dossier, pack, record) for record in sorted(records, key=_number)]


def _number(record: Record) -> tuple[int, str]:
    return number_in(record, "attempt"), record.id


def number_in(record: Record, label: str) -> int:
    """A label that should be a small number; -1 when it is none."""
    text = record.labels.get(label, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else -1


def _judge(dossier: Dossier, pack: Pack, record: Record) -> Judged:
    sample = pack.sample(record.labels.get("sample", ""))
    if sample is None:
        return Judged(record=record, sample=pack.samples[0], unread="its sample is not in the pack")
    try:
        raw = dossier.blob(record.response_digest) if record.response_digest else None
    except KeyError:
        raw = None
    if raw is None:
        if record.state in (State.OK, State.NO_USAGE):
            return Judged(record=record, sample=sample, unread="the body was not kept")
        return Judged(record=record, sample=sample, failure=failed("transport", f"{record.state}: {record.error}"))
    answer = read_body(record, raw)
    failure = failure_of(answer, record.state, record.error, sample, pack)
    return Judged(record=record, sample=sample, answer=answer, failure=failure)


def classes_of(attempts: Sequence[Judged]) -> Counter[str]:
    """How often each class of failure came."""
    return Counter(str(a.failure.cls) for a in attempts if a.failure is not None)


def worst_of(attempts: Sequence[Judged]) -> Judged | None:
    """The example to show: the first attempt of the most frequent class, one with a raw part when there is one."""
    counts = classes_of(attempts)
    if not counts:
        return None
    top = min(counts, key=lambda cls: (-counts[cls], cls))
    of_class = [a for a in attempts if a.failure is not None and a.failure.cls == top]
    return next((a for a in of_class if a.failure is not None and a.failure.raw), of_class[0])


def share(attempts: Sequence[Judged], **labels: str) -> str:
    """`k of n` failed among the attempts with these labels; empty when there are none."""
    chosen = [a for a in attempts if all(a.label(name) == value for name, value in labels.items())]
    return f"{sum(a.failure is not None for a in chosen)} of {len(chosen)}" if chosen else ""
