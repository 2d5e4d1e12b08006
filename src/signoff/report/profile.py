"""A profile as text: what it demands, by which source and of which date."""

from collections.abc import Mapping

from signoff.core.evidence import Value
from signoff.core.profile import Profile
from signoff.report.numbers import label_of, quantity


def profile_text(profile: Profile) -> str:
    """What `signoff profile show` prints; a newline at the end."""
    lines = [
        f"{profile.title} ({profile.name})",
        f"  status {profile.status}, scope {profile.scope}, sources read on {profile.checked_on}",
        f"  architectures {', '.join(profile.architectures)}; platforms {', '.join(profile.platforms)}",
        "",
        "Sources",
    ]
    for source in profile.sources:
        kind = source.source_class.replace("_", " ")
        lines.append(f"  {source.id}: {source.title}, {source.version}, read {source.read_on} [{kind}]")
        lines.append(f"    {source.url}" + (f"  sha256:{source.digest}" if source.digest else ""))
    lines += ["", "Chain"]
    for link in profile.chain:
        lines.append(f"  {link.name}: {_demand(link.demand)}; {_sources(link.sources)} [{link.source}]")
    if profile.launch:
        lines += ["", "Launch"]
    for rule in profile.launch:
        where = f", where {_pairs(rule.applies)}" if rule.applies else ""
        lines.append(f"  {rule.name}{where}" + (f" [{rule.source}]" if rule.source else ""))
        lines += [f"    --{flag}" + ("" if value is True else f" {value}") for flag, value in rule.flags.items()]
        lines += [f"    {name}={value}" for name, value in rule.environment.items()]
    floors = profile.floors
    lines += ["", "Floors"]
    for name in floors.__struct_fields__:
        lines.append(f"  {label_of(name)}: {quantity(name, getattr(floors, name))}")
    if profile.forbidden_fallbacks:
        lines += ["", "Forbidden fallbacks", *(f"  {name.replace('_', ' ')}" for name in profile.forbidden_fallbacks)]
    return "\n".join(lines) + "\n"


_DEMANDS = {
    "equals": "must be {}",
    "at_least": "at least {}",
    "major": "major version {}",
    "platform": "platform {}",
    "one_of": "one of {}",
    "matches": "must match the {}",
    "copies": "copies in one process: {}",
}
_SWITCHES = {"digest": "named by digest", "joined": "the serving process itself was seen"}


def _demand(demand: Mapping[str, Value]) -> str:
    """The rules of a link in words; a rule without words stands as name and value."""
    return ", ".join(_rule(name, value) for name, value in demand.items())


def _rule(name: str, value: Value) -> str:
    if name in _SWITCHES and value is True:
        return _SWITCHES[name]
    text = _alternatives(value)
    return _DEMANDS[name].format(text) if name in _DEMANDS else f"{name.replace('_', ' ')} {text}"


def _alternatives(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).replace("|", ", ").replace("_", " ") if isinstance(value, str) and "|" in value else str(value)


def _sources(count: int) -> str:
    return "one source is enough" if count == 1 else f"{count} independent sources must agree"


def _pairs(facts: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_alternatives(value).replace(', ', ' or ')}" for name, value in facts.items()
    )
