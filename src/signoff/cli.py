"""The command line: parse, call, print, exit. What a command needs is imported when it runs: the rest stays quick."""

import asyncio
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from signoff import __version__
from signoff.core.printable import printable
from signoff.errors import INTERRUPTED, OWN_FAULT, REFUSED, SignoffError

if TYPE_CHECKING:
    from signoff.judge.judgement import Judgement
    from signoff.run.prepare import Setup

NAME_CHARS_MAX = 80

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Decides, with evidence, whether a self-hosted LLM service may go live.",
)
profile_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Show a profile.")
app.add_typer(profile_app, name="profile")

Bundle = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder that a run left.")]
BaseUrl = Annotated[str, typer.Option("--base-url", metavar="URL", help="Root of the service, without /v1.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="Environment variable that holds the API key.")
]
CaFile = Annotated[str | None, typer.Option("--ca-file", metavar="PATH", help="PEM file of the CA, for https.")]
BundleOutput = Annotated[
    Path | None, typer.Option("-o", metavar="FOLDER", help="The bundle folder to write; a new name if not given.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def main() -> None:
    """Every exit code is decided here or in the table of `core.verdict`."""
    try:
        app()
    except SignoffError as error:
        print(f"signoff: {printable(str(error), newlines=True)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    except Exception:
        print(printable(traceback.format_exc(), newlines=True), end="", file=sys.stderr)
        print("signoff: this is a fault of Signoff itself; the lines above say where.", file=sys.stderr)
        sys.exit(OWN_FAULT)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"signoff {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command()
def init(
    base_url: BaseUrl,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Profile to demand; by the served model if not given.")
    ] = None,
    gateway_url: Annotated[
        str | None, typer.Option("--gateway-url", metavar="URL", help="URL that callers use, or `none`.")
    ] = None,
    api_key_env: ApiKeyEnv = None,
    ca_file: CaFile = None,
    output: Annotated[
        Path | None, typer.Option("-o", metavar="PATH", help="Write the plan here instead of printing it.")
    ] = None,
) -> None:
    """Ask a running service who it is and write a commented plan."""
    from signoff.run.init import init as write_plan

    text = asyncio.run(write_plan(base_url, profile, gateway_url, api_key_env, ca_file))
    if output is None:
        print(text, end="")
        return
    if output.exists():
        raise SignoffError(f"{output}: is there already", "Give another file with -o; a plan is never written over.")
    _write(output, text.encode())
    print(f"wrote {output}; fill in limits, reviewers, triggers and rollback, then: signoff run {output}")


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    output: BundleOutput = None,
    gate: Annotated[
        list[str] | None, typer.Option("--gate", metavar="GATE", help="Run this gate only; may be given again.")
    ] = None,
    all_gates: Annotated[bool, typer.Option("--all", help="Go on when the environment is proved wrong.")] = False,
    json: Json = False,
) -> None:
    """Run a plan against its service: bundle, report, verdict.

    Exit codes: 0 go, 10 limited, 11 rework, 12 scale, 13 incomplete, 130 interrupted."""
    from signoff.core.words import Gate
    from signoff.run.prepare import prepare

    try:
        gates = tuple(Gate(name) for name in gate or ())
    except ValueError as error:
        raise SignoffError(f"--gate: {error}", f"Gates are {', '.join(Gate)}.") from None
    setup = asyncio.run(prepare(plan, gates, all_gates))
    _accept(setup, output or _fresh_name(setup.plan.name), json)


def _fresh_name(name: str) -> Path:
    import time

    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[:NAME_CHARS_MAX].lstrip(".-") or "run"
    return Path(f"{plain}-{time.strftime('%Y%m%d-%H%M%S')}")


def _accept(setup: "Setup", folder: Path, json: bool) -> None:
    """Run, conclude, print and exit."""
    import uvloop
    from rich.console import Console

    from signoff.core.verdict import EXIT_CODES
    from signoff.run.announce import announcement
    from signoff.run.order import conclude, run_plan
    from signoff.terminal import Terminal

    console = Console(stderr=True)
    console.print(announcement(setup), highlight=False, markup=False)

    async def go() -> bool:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        with Terminal(console) as terminal:
            async for event in run_plan(setup, folder, stop):
                terminal.show(event)
        return stop.is_set()

    interrupted = uvloop.run(go())
    judgement = conclude(folder)
    _print_judgement(folder, judgement, json)
    sys.exit(INTERRUPTED if interrupted else EXIT_CODES[judgement.verdict.verdict])


def _print_judgement(folder: Path, judgement: "Judgement", json: bool) -> None:
    from signoff.core.codec import to_pretty_json
    from signoff.report.text import summary

    if json:
        sys.stdout.buffer.write(to_pretty_json(judgement.verdict))
        sys.stdout.flush()
        return
    print(summary(judgement))
    print(f"\nbundle {folder}\nreport {folder / 'report.html'}")


@app.command()
def judge(bundle: Bundle, json: Json = False) -> None:
    """Judge a bundle again, offline.

    Exit codes: as `run`, or 3 when the sealed result differs."""
    from signoff.bundle.seal import is_signed
    from signoff.core.verdict import EXIT_CODES
    from signoff.report.files import render_all
    from signoff.run.again import differing, judge_folder, write_results

    dossier, judgement = judge_folder(bundle)
    different = differing(bundle, judgement)
    if different:
        _print_judgement(bundle, judgement, json)
        raise SignoffError(
            f"{bundle}: judged again, {' and '.join(different)} differ from what is sealed there",
            "The evidence was changed, or another rule set judged it; nothing was written.",
            REFUSED,
        )
    if not is_signed(bundle):
        try:
            write_results(bundle, judgement, render_all(dossier, judgement))
        except OSError as error:
            raise SignoffError(f"{bundle}: cannot write: {error.strerror}", "Judge a copy you may write.") from None
    _print_judgement(bundle, judgement, json)
    sys.exit(EXIT_CODES[judgement.verdict.verdict])


@app.command()
def report(
    bundle: Bundle,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="html, md, json, junit or openmetrics.")
    ] = "html",
    lang: Annotated[str, typer.Option(metavar="LANGUAGE", help="en, zh-Hant or zh-Hans.")] = "en",
    output: Annotated[Path | None, typer.Option("-o", metavar="PATH", help="Write here instead of printing.")] = None,
) -> None:
    """Render a judged bundle."""
    from signoff.report.files import FORMATS, LANGUAGES, render
    from signoff.run.again import judge_folder

    if form not in FORMATS:
        raise SignoffError(f"--format {form}: not a format", f"Formats are {', '.join(FORMATS)}.")
    if lang not in LANGUAGES:
        raise SignoffError(f"--lang {lang}: not a language of the reports", f"Languages are {', '.join(LANGUAGES)}.")
    raw = render(*judge_folder(bundle), form=form, lang=lang)
    if output is None:
        sys.stdout.buffer.write(raw)
    else:
        _write(output, raw)


def _write(path: Path, raw: bytes) -> None:
    try:
        path.write_bytes(raw)
    except OSError as error:
        raise SignoffError(f"{path}: cannot write: {error.strerror}", "Give a file in a folder that exists.") from None


@app.command()
def diagnose(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files or folders.")],
    json: Json = False,
) -> None:
    """Say where a trouble belongs, from files alone.

    Files may be logs, nvidia-smi texts, launch commands, scrapes of /metrics, requests and responses."""
    from signoff.core.codec import to_pretty_json
    from signoff.run.diagnose import diagnose as look
    from signoff.run.diagnose import render_text

    found = look(paths)
    if json:
        sys.stdout.buffer.write(to_pretty_json(found))
    else:
        print(render_text(found))


@app.command()
def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="A finding's code, as in a report.")]) -> None:
    """What a finding checks, and what would change it."""
    from signoff.report.explain import explain as words_of

    print(words_of(code))


@profile_app.command("show")
def profile_show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name or file.")], json: Json = False
) -> None:
    """What a profile demands, with its sources and their dates."""
    from signoff.core.codec import to_pretty_json
    from signoff.report.profile import profile_text
    from signoff.run.profiles import load_profile

    profile = load_profile(name)
    print(to_pretty_json(profile).decode() if json else profile_text(profile), end="")


@app.command()
def load(
    base_url: BaseUrl,
    streams: Annotated[int, typer.Option(min=1, help="Requests in flight.")],
    requests: Annotated[int, typer.Option(min=1, help="Requests in all.")],
    output_tokens: Annotated[int, typer.Option("--output-tokens", min=1, help="Tokens to generate, each request.")],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Served model; not needed when there is one.")
    ] = None,
    api_key_env: ApiKeyEnv = None,
    ca_file: CaFile = None,
    json: Json = False,
) -> None:
    """A plain, exact load run: no verdict, only what was measured."""
    from signoff.core.codec import to_pretty_json
    from signoff.run.load import load_text, run_load

    result = run_load(base_url, streams, requests, output_tokens, model, api_key_env, ca_file=ca_file)
    if json:
        sys.stdout.buffer.write(to_pretty_json(result))
    else:
        print(load_text(result))


@app.command()
def sim(
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="FAULT", help="NAME or NAME=STRENGTH; may be given again.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one.")] = 0,
    list_faults: Annotated[
        bool, typer.Option("--list-faults", help="One fault a line: name, then what it does.")
    ] = False,
) -> None:
    """The simulated service, in the foreground."""
    from signoff.sim.faults import FAULTS
    from signoff.sim.serve import serve_forever

    if list_faults:
        width = max(len(each.name) for each in FAULTS)
        for each in FAULTS:
            print(f"{each.name:<{width}}  {each.says}")
        return
    sys.exit(serve_forever(fault or [], port))


def _never_came_up(log: Path, json: bool) -> None:
    """A service that does not start cannot be run against: its log is diagnosed instead, and that verdict exits."""
    from signoff.core.verdict import EXIT_CODES
    from signoff.core.words import VerdictName
    from signoff.run.diagnose import diagnose as look

    print("the service did not come up; its launch log says:", file=sys.stderr)
    diagnose([log], json)
    sys.exit(EXIT_CODES[VerdictName(look([log]).verdict)])


@app.command()
def demo(
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="go, limited, rework, scale or incomplete.")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option("--fault", metavar="FAULT", help="Run the gate of this fault only.")
    ] = None,
    output: BundleOutput = None,
    json: Json = False,
) -> None:
    """A whole acceptance against the simulated service.

    Exit codes: as `run`."""
    import tempfile

    from signoff.run.demo import demo_plan, gates_for
    from signoff.run.prepare import prepare
    from signoff.sim.faults import parse
    from signoff.sim.process import start
    from signoff.sim.scenarios import SCENARIOS

    if scenario is not None and fault:
        raise SignoffError("--scenario and --fault exclude each other", "Give one of them.")
    name = scenario or ("go" if not fault else "fault")
    if name != "fault" and name not in SCENARIOS:
        raise SignoffError(f"--scenario {name}: not a scenario", f"Scenarios are {', '.join(SCENARIOS)}.")
    faults = tuple(fault) if fault else SCENARIOS[name]
    gates = gates_for([parse(each)[0].gate for each in faults]) if faults else ()
    with tempfile.TemporaryDirectory(prefix="signoff-demo-") as folder:
        with start(faults, root=Path(folder) / "root") as service:
            if not service.alive:
                _never_came_up(service.log, json)
            plan = Path(folder) / "plan.yaml"
            plan.write_text(demo_plan(service.base_url, service.gateway_url, service.root, name, gates))
            setup = asyncio.run(prepare(plan))
            _accept(setup, output or _fresh_name(f"demo-{name}"), json)
