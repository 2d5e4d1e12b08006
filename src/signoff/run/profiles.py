"""Profiles: those that come with the program, by name, and others by file."""

from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from signoff.core.profile import DEMANDING_CLASSES, Profile
from signoff.errors import SignoffError

FOLDER = Path(__file__).parents[1] / "profiles"
PROFILE_BYTES_MAX = 1_000_000
EXTENDS_MAX = 4
"""How many profiles may stand on each other by `extends`."""


def names() -> list[str]:
    """The profiles that come with the program."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_profile(name: str) -> Profile:
    """The profile called `name`, or in the YAML file `name`; what it extends is filled in."""
    path = _path(name)
    tree = _tree(path, EXTENDS_MAX)
    try:
        profile = msgspec.convert(tree, Profile, strict=True)
    except msgspec.ValidationError as error:
        raise SignoffError(f"{path}: {error}", "Mend that key of the profile.") from None
    _refuse_unsourced(profile, path)
    return profile


def _path(name: str) -> Path:
    if name in names():
        return FOLDER / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return Path(name)
    raise SignoffError(
        f"no profile is called `{name[:100]}`", f"Profiles: {', '.join(names())}; or give the path of a YAML file."
    )


def _tree(path: Path, depth: int) -> dict[str, Any]:
    if depth == 0:
        raise SignoffError(f"{path}: `extends` goes too deep or round in a circle", "Mend `extends`.")
    try:
        if path.stat().st_size > PROFILE_BYTES_MAX:
            raise SignoffError(f"{path}: larger than {PROFILE_BYTES_MAX} bytes", "Give a profile.")
        tree = YAML(typ="safe", pure=True).load(path.read_text())
    except OSError as error:
        raise SignoffError(f"{path}: cannot read: {error.strerror}", f"Profiles: {', '.join(names())}.") from None
    except (YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise SignoffError(f"{path}: not readable YAML: {str(error)[:300]}", "Mend the file.") from None
    if not isinstance(tree, dict):
        raise SignoffError(f"{path}: a profile is a mapping of keys", "Begin with `schema: signoff/profile/1`.")
    base = tree.pop("extends", None)
    return tree if base is None else _tree(_path(str(base)), depth - 1) | tree


def _refuse_unsourced(profile: Profile, path: Path) -> None:
    """Every demand must stand on a text of a class that may demand."""
    classes = {source.id: source.source_class for source in profile.sources}
    rules = [(f"chain.{link.name}", link.source) for link in profile.chain]
    rules += [(f"launch.{rule.name}", rule.source) for rule in profile.launch]
    for rule, source in rules:
        if source not in classes:
            raise SignoffError(f"{path}: {rule}: source `{source}` is not among sources", "Name a source by its id.")
        if classes[source] not in DEMANDING_CLASSES:
            raise SignoffError(
                f"{path}: {rule}: a {classes[source]} cannot make a demand",
                f"Only these can: {', '.join(DEMANDING_CLASSES)}.",
            )
