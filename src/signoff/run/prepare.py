"""Before the first request: read the plan, find the profile, ask the server who it is. Nothing is loaded yet.

Whatever is wrong here is a usage error (exit 2) with one message, and leaves no bundle behind.
"""

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from signoff.collect.control import Answer, Control
from signoff.collect.environment.transports import read_logs
from signoff.core.plan import Plan
from signoff.core.plan_text import parse_plan
from signoff.core.printable import printable
from signoff.core.profile import Profile
from signoff.core.urls import shown_url, url_fault
from signoff.core.words import Gate
from signoff.errors import SignoffError
from signoff.read.launch_log import read_launch_log
from signoff.run.packs import load_packs
from signoff.run.profiles import load_profile

MODELS = "/v1/models"
ID_CHARS_MAX, LISTED_MAX = 100, 8


class Names(Struct, frozen=True, kw_only=True):
    """What a person calls a setting, so that an error points to where it can be mended."""

    address: str
    key: str
    model: str


IN_PLAN = Names(
    address="service.base_url of the plan", key="service.api_key_env of the plan", model="service.model of the plan"
)
AS_OPTIONS = Names(address="--base-url", key="--api-key-env", model="--model")


class ServedModel(Struct):
    id: str
    max_model_len: int | None = None


class _Models(Struct):
    data: list[ServedModel]


class Setup(Struct, frozen=True, kw_only=True):
    """All that a run needs to begin."""

    plan: Plan
    plan_text: bytes
    profile: Profile
    model: str
    max_model_len: int | None
    gates: tuple[Gate, ...]
    """The gates to run now; the plan's others stay not run."""
    all_gates: bool = False
    """Go on after a failed chain."""


def read_plan(path: Path) -> tuple[Plan, bytes]:
    """The plan and its bytes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SignoffError(
            f"{path}: cannot read: {error.strerror}", "Write one with `signoff init --base-url URL -o plan.yaml`."
        ) from None
    try:
        return parse_plan(raw.decode(), str(path)), raw
    except UnicodeDecodeError as error:
        raise SignoffError(f"{path}: not UTF-8 text: byte {error.start}", "Give the plan file.") from None


async def prepare(path: Path, gates: tuple[Gate, ...] = (), all_gates: bool = False) -> Setup:
    """The setup of the plan at `path`; `gates` narrows which of the plan's gates run."""
    plan, raw = read_plan(path)
    profile = load_profile(plan.profile)
    load_packs(plan.agent.packs)  # a broken pack must be known before the first request
    for gate in gates:
        if gate not in plan.gates:
            raise SignoffError(
                f"--gate {gate}: the plan has only {', '.join(plan.gates)}", "Name a gate of the plan, or add it there."
            )
    refuse_address(plan.service.base_url)
    await refuse_uncovered(plan, profile)
    async with Control(plan.service) as control:
        served = await ask_models(control)
    chosen = choose(served, plan.service.model)
    return Setup(
        plan=plan if plan.service.model else replace(plan, service=replace(plan.service, model=chosen.id)),
        plan_text=raw,
        profile=profile,
        model=chosen.id,
        max_model_len=chosen.max_model_len,
        gates=gates or plan.gates,
        all_gates=all_gates,
    )


async def refuse_uncovered(plan: Plan, profile: Profile) -> None:
    """Refuse a plan whose launch logs name an architecture that its profile is not about; a log that names none, or
    cannot be read, is judged later."""
    if "*" in profile.architectures:
        return
    for node in plan.nodes:
        for taken in await read_logs(node):
            served = read_launch_log(taken.raw).architecture if taken.raw else None
            if served is not None and served not in profile.architectures:
                raise SignoffError(
                    f"profile {profile.name} does not cover the served architecture {printable(served[:ID_CHARS_MAX])} "
                    f"({taken.source}); it covers {', '.join(profile.architectures)}",
                    "Name the model's own profile in the plan, or `generic-vllm`.",
                )


async def ask_models(control: Control, names: Names = IN_PLAN) -> list[ServedModel]:
    """The served models, or an error that says why the service cannot be used."""
    return models_in(await control.get(MODELS), control, names)


def models_in(answer: Answer, control: Control, names: Names = IN_PLAN) -> list[ServedModel]:
    """The models that an answer lists, or an error that says why the service cannot be used."""
    refuse_unusable(answer, control, names)
    try:
        return msgspec.json.decode(answer.body, type=_Models).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SignoffError(
            f"{control.base_url}{MODELS}: the answer is not a list of models",
            f"{names.address} must be an OpenAI-compatible server.",
        ) from None


def refuse_unusable(answer: Answer, control: Control, names: Names = IN_PLAN) -> None:
    """Raise what a person must mend before anything can be measured."""
    where = f"{control.base_url}{MODELS}"
    if answer.status is None:
        raise SignoffError(f"{where}: {answer.error}", f"Start the service, or mend {names.address}.")
    if answer.status in (401, 403):
        if control.has_key:
            raise SignoffError(
                f"{where}: HTTP {answer.status}: the key was refused",
                f"Export the server's own key under the name that {names.key} gives.",
            )
        raise SignoffError(
            f"{where}: HTTP {answer.status}: a key is wanted",
            f"Name the environment variable that holds the key in {names.key}, and export it.",
        )
    if not answer.ok:
        raise SignoffError(
            f"{where}: HTTP {answer.status}", f"{names.address} must be the server's root, without /v1 at the end."
        )


def refuse_address(url: str, names: Names = IN_PLAN) -> str:
    """The root URL of a service without a slash at its end, or an error that repeats no password."""
    fault = url_fault(url)
    if not fault and ("?" in url or "#" in url):
        fault = "must not hold `?` or `#`"
    if fault:
        raise SignoffError(f"{names.address} {shown_url(url)}: {fault}", "Give the server's root: http://host:port.")
    root = url.rstrip("/")
    if root.endswith("/v1"):
        raise SignoffError(
            f"{names.address} {shown_url(url)}: ends in /v1",
            f"Give the server's root, since /metrics and /version stand there: {shown_url(root.removesuffix('/v1'))}",
        )
    return root


def choose(served: list[ServedModel], wanted: str | None, names: Names = IN_PLAN) -> ServedModel:
    """The model to ask: the wanted one, or the only one."""
    listed = ", ".join(printable(model.id[:ID_CHARS_MAX]) for model in served[:LISTED_MAX])
    if wanted is not None:
        for model in served:
            if model.id == wanted:
                return model
        raise SignoffError(
            f"{names.model}: the server does not serve `{printable(wanted[:ID_CHARS_MAX])}`",
            f"It serves: {listed or 'nothing'}.",
        )
    if len(served) != 1:
        raise SignoffError(f"the server serves {len(served)} models: {listed or 'none'}", f"Name one in {names.model}.")
    return served[0]
