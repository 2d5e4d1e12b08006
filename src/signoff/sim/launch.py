"""What the faults change in how the simulated service was launched, so that command line, log and service agree."""

from collections.abc import Sequence

from msgspec import structs

from signoff.core.evidence import Value
from signoff.sim.faults import settings_with, strengths
from signoff.sim.host_facts import Host
from signoff.sim.host_faults import host_with
from signoff.sim.settings import Settings


def launched(faults: Sequence[str], seed: int = 1) -> tuple[Settings, Host]:
    """The service and the host that `faults` make."""
    on = strengths(faults)
    host = host_with(list(on))
    options = dict(host.options)
    if "load-no-tool-parser" in on:
        options = _without(options, "enable-auto-tool-choice", "tool-call-parser")
    if "prefix-off" in on:
        options = _without(options, "enable-prefix-caching") | {"no-enable-prefix-caching": True}
    if "conc-slots" in on:
        options["max-num-seqs"] = int(on["conc-slots"])
    if "long-reject" in on:
        options["max-model-len"] = int(on["long-reject"])
    host = structs.replace(host, options=options)
    settings = settings_with(faults, seed=seed)
    settings = structs.replace(
        settings,
        version=host.wheels.get("vllm", settings.version),
        root=host.model,
        dev_mode=host.environment.get("VLLM_SERVER_DEV_MODE") == "1",
        prefix_caching=settings.prefix_caching and options.get("no-enable-prefix-caching") is not True,
        tool_parser=settings.tool_parser if "tool-call-parser" in options else None,
    )
    return settings, host


def _without(options: dict[str, Value], *names: str) -> dict[str, Value]:
    return {name: value for name, value in options.items() if name not in names}
