"""What a person sees while a run goes on: stages, progress, time left, live numbers. Writes to standard error."""

from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from signoff.core.events import Event, EvidenceTaken, RecordTaken, RunStopped, StageFinished, StageStarted
from signoff.core.events import Progress as LiveNumbers
from signoff.core.evidence import Evidence
from signoff.core.printable import printable
from signoff.core.words import State

REASON_CHARS_MAX = 160


def _plain(text: str) -> str:
    """Foreign text that neither steers the terminal nor is read as markup."""
    return escape(printable(text))


class Terminal:
    """Listens to a run's events; `with` it around the run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[live]}"),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._taken: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._told: set[tuple[str, str, str]] = set()
        self._again: Counter[str] = Counter()

    def __enter__(self) -> "Terminal":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
        self._tell_again()

    def show(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, StageStarted):
            self._tasks[event.stage] = self._bars.add_task(
                _plain(event.stage), total=event.planned_requests or None, live=""
            )
        elif isinstance(event, RecordTaken):
            self._record(event)
        elif isinstance(event, LiveNumbers):
            self._live(event)
        elif isinstance(event, StageFinished):
            self._finish(event)
        elif isinstance(event, EvidenceTaken) and event.evidence.missing:
            self._unseen(event.evidence)
        elif isinstance(event, RunStopped) and event.why != "finished":
            self._console.print(f"[bold yellow]stopped:[/] {_plain(event.why)}")

    def _record(self, event: RecordTaken) -> None:
        stage = event.exchange.record.stage
        self._taken[stage] = self._taken.get(stage, 0) + 1
        if event.exchange.record.state is not State.OK:
            self._failed[stage] = self._failed.get(stage, 0) + 1
        task = self._tasks.get(stage)
        if task is not None:
            self._bars.update(task, completed=self._taken[stage])

    def _live(self, event: LiveNumbers) -> None:
        task = self._tasks.get(event.stage)
        if task is None:
            return
        parts = [
            f"{name} {value:g}"
            for name, value in (("running", event.running), ("waiting", event.waiting))
            if value is not None
        ]
        if event.kv_usage is not None:
            parts.append(f"KV {event.kv_usage:.0%}")
        self._bars.update(task, live="  ".join(parts))

    def _unseen(self, evidence: Evidence) -> None:
        """What could not be observed, once for each reason; repetitions are counted and told when a stage ends."""
        key = (evidence.kind, evidence.source, evidence.missing)
        if key in self._told:
            self._again[evidence.kind] += 1
            return
        self._told.add(key)
        self._console.print(
            f"  [yellow]not observed[/] {_plain(evidence.kind)} ({_plain(evidence.source)}): "
            f"{_plain(evidence.missing[:REASON_CHARS_MAX])}",
            highlight=False,
        )

    def _tell_again(self) -> None:
        if self._again:
            told = ", ".join(f"{_plain(kind)} {count} times" for kind, count in sorted(self._again.items()))
            self._console.print(f"  [yellow]not observed again[/], for the reasons above: {told}", highlight=False)
            self._again.clear()

    def _finish(self, event: StageFinished) -> None:
        self._tell_again()
        task = self._tasks.pop(event.stage, None)
        if task is not None:
            self._bars.remove_task(task)
        taken, failed = self._taken.get(event.stage, 0), self._failed.get(event.stage, 0)
        if taken or event.stopped:
            told = f"{taken} requests" + (f", [red]{failed} not ok[/]" if failed else "")
            stopped = f", [yellow]stopped: {_plain(event.stopped)}[/]" if event.stopped else ""
            self._console.print(f"  {_plain(event.stage):<32} {told}{stopped}", highlight=False)
