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
        lines.append(f"  {source.id}: {source.title}, {source.version}, read {source.read_on} [{source.source_class}]")
        lines.append(f"    {source.url}" + (f"  sha256:{source.digest}" if source.digest else ""))
    lines += ["", "Chain"]
    for link in profile.chain:
        lines.append(f"  {link.name}: {_pairs(link.demand)}; {link.sources} sources must agree [{link.source}]")
    if profile.launch:
        lines += ["", "Launch"]
    for rule in profile.launch:
        where = f" where {_pairs(rule.applies)}" if rule.applies else ""
        lines.append(f"  {rule.name}{where}" + (f" [{rule.source}]" if rule.source else ""))
        lines += [f"    --{flag}" + ("" if value is True else f" {value}") for flag, value in rule.flags.items()]
        lines += [f"    {name}={value}" for name, value in rule.environment.items()]
    floors = profile.floors
    lines += ["", "Floors"]
    for name in floors.__struct_fields__:
        lines.append(f"  {label_of(name)}: {quantity(name, getattr(floors, name))}")
    if profile.forbidden_fallbacks:
        lines += ["", "Forbidden fallbacks", *(f"  {name}" for name in profile.forbidden_fallbacks)]
    return "\n".join(lines) + "\n"


def _pairs(facts: Mapping[str, Value]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
