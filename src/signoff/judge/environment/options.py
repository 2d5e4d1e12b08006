"""The launch as it is and as the recipe wants it, in one spelling: option names without dashes, values as text."""

import json
from collections.abc import Sequence

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.profile import Profile
from signoff.judge.environment.scene import NodeView
from signoff.judge.environment.versions import numbers

HEADLESS_OWN = ("host", "port", "headless", "node-rank", "master-addr", "master-port", "data-parallel-start-rank")
"""Options that differ between nodes of one service by their nature."""
SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size", "q": "quantization"}
COMPARED = {
    "kv-cache-dtype": "kv_cache_dtype",
    "load-format": "load_format",
    "enable-prefix-caching": "enable_prefix_caching",
}
"""Options whose value in force the engine's configuration line tells."""


class Launch(Struct, frozen=True, kw_only=True):
    """Options in force on one node. `source` says where they were read."""

    options: dict[str, str]
    environment: dict[str, str]
    source: str


def launch_of(view: NodeView) -> Launch | None:
    """From the joined process's command line, else from the launch log; None when neither says."""
    if view.server is not None and len(view.server.command) > 1:
        options = of_command(view.server.command)
        return Launch(options=options, environment=view.server.environment, source="/proc/PID/cmdline")
    entry = view.last_log()
    if entry is not None and entry.log.arguments:
        return Launch(options=of_arguments(entry.log.arguments), environment={}, source=entry.source)
    return None


def canonical(name: str) -> str:
    name = name.lstrip("-").replace("_", "-").lower()
    return SHORT.get(name, name)


def of_command(words: Sequence[str]) -> dict[str, str]:
    """`--name value`, `--name=value` and bare switches of a command line; `--no-name` is `name` false."""
    options: dict[str, str] = {}
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-") or len(word) < 2 or word[1].isdigit():
            continue
        name, sign, value = word.partition("=")
        values = [value] if sign else []
        while not sign and index < len(words) and not _is_option(words[index]):
            values.append(words[index])
            index += 1
        _put(options, canonical(name), " ".join(values) if values else "true")
    return options


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not word[1].isdigit()


def of_arguments(arguments: dict[str, str]) -> dict[str, str]:
    """The log's `non-default args`, whose values are Python literals as text."""
    options: dict[str, str] = {}
    for name, value in arguments.items():
        bare = value.strip()
        if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
            bare = bare[1:-1]
        _put(options, canonical(name), {"True": "true", "False": "false", "None": "none"}.get(bare, bare))
    return options


def _put(options: dict[str, str], name: str, value: str) -> None:
    if name.startswith("no-") and value in ("true", "false"):
        name, value = name[3:], "false" if value == "true" else "true"
    options[name] = value


def text_of(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def same(found: str, wanted: str) -> bool:
    """Equal as text, as numbers, or as JSON or Python mappings whatever their spacing."""
    if found == wanted:
        return True
    try:
        if float(found) == float(wanted):
            return True
    except ValueError:
        pass
    if wanted.startswith(("{", "[")):
        return _tree(found) is not None and _tree(found) == _tree(wanted)
    return False


def _tree(text: str) -> object:
    plain = text.replace("'", '"').replace("True", "true").replace("False", "false").replace("None", "null")
    for attempt in (text, plain):
        try:
            return json.loads(attempt)
        except (ValueError, RecursionError):
            continue
    return None


class Wanted(Struct, frozen=True, kw_only=True):
    """What the recipe sets for this service, later rules over earlier ones."""

    options: dict[str, str]
    environment: dict[str, str]
    adjustable: frozenset[str]
    rules: tuple[str, ...]


def wanted_of(profile: Profile, platform: str | None, gpus: Sequence[str], sizes: dict[str, int]) -> Wanted:
    """The recipe's rules that apply to this platform, these GPUs and this layout."""
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    adjustable: set[str] = set()
    names = []
    facts = {"platform": platform or "", "strategy": strategy(sizes)}
    for rule in profile.launch:
        fits = all(
            any(kind in name.replace("-", " ").split() for kind in str(value).split("|") for name in gpus)
            if key == "gpu"
            else facts.get(key) == value
            for key, value in rule.applies.items()
        )
        if not fits:
            continue
        names.append(rule.name)
        for name, value in rule.flags.items():
            _put(options, canonical(name), text_of(value))
        environment |= rule.environment
        adjustable |= {canonical(name) if name.islower() else name for name in rule.adjustable}
    return Wanted(options=options, environment=environment, adjustable=frozenset(adjustable), rules=tuple(names))


def strategy(sizes: dict[str, int]) -> str:
    """`tp`, `tp_pp`, `tp_dp`: which parallel dimensions are more than one."""
    return "_".join(name for name in ("tp", "pp", "dp") if sizes.get(name, 1) > 1) or "single"


def sizes_of(view: NodeView) -> dict[str, int]:
    """Tensor, pipeline and data parallel sizes: of the options, else of the log; 1 when neither says."""
    entry, launch = view.last_log(), launch_of(view)
    sizes = {}
    for name in ("tp", "pp", "dp"):
        logged = getattr(entry.log, name) if entry is not None else None
        said = numbers(launch.options.get(SHORT[name], "")) if launch is not None else ()
        sizes[name] = said[0] if said else logged or 1
    return sizes
