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
from signoff.core.profile import Profile
from signoff.core.words import Gate
from signoff.errors import SignoffError
from signoff.read.launch_log import read_launch_log
from signoff.run.packs import load_packs
from signoff.run.profiles import load_profile


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
                    f"profile {profile.name} does not cover the served architecture {served[:100]} "
                    f"({taken.source}); it covers {', '.join(profile.architectures)}",
                    "Name the model's own profile in the plan, or `generic-vllm`.",
                )


async def ask_models(control: Control) -> list[ServedModel]:
    """The served models, or an error that says why the service cannot be used."""
    answer = await control.get("/v1/models")
    refuse_unusable(answer, control.base_url)
    try:
        return msgspec.json.decode(answer.body, type=_Models).data
    except msgspec.DecodeError:
        raise SignoffError(
            f"{control.base_url}/v1/models: the answer is not a list of models",
            "service.base_url must be an OpenAI-compatible server, without /v1 at the end.",
        ) from None


def refuse_unusable(answer: Answer, base_url: str) -> None:
    """Raise what a person must mend before anything can be measured."""
    where = f"{base_url}/v1/models"
    if answer.status is None:
        raise SignoffError(f"{where}: {answer.error}", "Start the service, or mend service.base_url in the plan.")
    if answer.status in (401, 403):
        raise SignoffError(
            f"{where}: HTTP {answer.status}: the key was refused",
            "Name the environment variable that holds the key in service.api_key_env, and export it.",
        )
    if not answer.ok:
        raise SignoffError(
            f"{where}: HTTP {answer.status}", "service.base_url must be the server's root, without /v1 at the end."
        )


def choose(served: list[ServedModel], wanted: str | None) -> ServedModel:
    """The model to ask: the wanted one, or the only one."""
    names = [model.id for model in served]
    if wanted is not None:
        for model in served:
            if model.id == wanted:
                return model
        raise SignoffError(
            f"service.model: the server does not serve `{wanted[:100]}`",
            f"It serves: {', '.join(names)[:500] or 'nothing'}.",
        )
    if len(served) != 1:
        raise SignoffError(
            f"the server serves {len(served)} models: {', '.join(names)[:500] or 'none'}",
            "Name one in service.model of the plan.",
        )
    return served[0]
