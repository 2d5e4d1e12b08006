"""What a person sees while a run goes on: stages, progress, time left, live numbers. Writes to standard error."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from signoff.core.events import Event, EvidenceTaken, RecordTaken, RunStopped, StageFinished, StageStarted
from signoff.core.events import Progress as LiveNumbers
from signoff.core.words import State


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

    def __enter__(self) -> "Terminal":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, StageStarted):
            self._tasks[event.stage] = self._bars.add_task(
                escape(event.stage), total=event.planned_requests or None, live=""
            )
        elif isinstance(event, RecordTaken):
            self._record(event)
        elif isinstance(event, LiveNumbers):
            self._live(event)
        elif isinstance(event, StageFinished):
            self._finish(event)
        elif isinstance(event, EvidenceTaken) and event.evidence.missing:
            self._console.print(
                f"  [yellow]not seen[/] {escape(event.evidence.kind)} ({escape(event.evidence.source)}): "
                f"{escape(event.evidence.missing[:160])}",
                highlight=False,
            )
        elif isinstance(event, RunStopped) and event.why != "finished":
            self._console.print(f"[bold yellow]stopped:[/] {escape(event.why)}")

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

    def _finish(self, event: StageFinished) -> None:
        task = self._tasks.pop(event.stage, None)
        if task is not None:
            self._bars.remove_task(task)
        taken, failed = self._taken.get(event.stage, 0), self._failed.get(event.stage, 0)
        if taken or event.stopped:
            told = f"{taken} requests" + (f", [red]{failed} not ok[/]" if failed else "")
            stopped = f", [yellow]stopped: {escape(event.stopped)}[/]" if event.stopped else ""
            self._console.print(f"  {escape(event.stage):<32} {told}{stopped}", highlight=False)
