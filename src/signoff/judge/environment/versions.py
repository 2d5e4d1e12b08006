"""Versions as numbers, and the tables of NVIDIA's compatibility documents.

Sources: docs.nvidia.com/deploy/cuda-compatibility (minor-version and forward compatibility, editions v590 and 615),
docs.nvidia.com/datacenter/tesla/drivers (R620 edition, 2026-11).
"""

import re

DRIVER_FLOORS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
"""CUDA major of a build to the least driver that runs it by minor version compatibility."""
BRANCHES_ENDED = {535: "2026-06", 570: "2026-02", 610: "2026-08"}
"""Driver branches that get no more fixes, and since when."""

_NUMBERS = re.compile(r"\d+")


def numbers(version: str) -> tuple[int, ...]:
    """`580.126.20` as (580, 126, 20), so that 580.95 is less than 580.126; what follows `+` or a letter is left out."""
    head = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in _NUMBERS.findall(head.group(1))[:6]) if head else ()


def major(version: str) -> int | None:
    found = numbers(version)
    return found[0] if found else None


def at_least(version: str, least: str) -> bool:
    return numbers(version) >= numbers(least)


def base(version: str) -> str:
    """The version without its local part: `0.32.0+cpu` is `0.32.0`."""
    return version.split("+", 1)[0].strip()


def local(version: str) -> str:
    """The local part: `cu130`, `cpu`, empty when there is none."""
    return version.split("+", 1)[1].strip() if "+" in version else ""


def cuda_of_local(part: str) -> str | None:
    """`cu130` as `13.0`; None for anything else."""
    found = re.fullmatch(r"cu(\d+)(\d)", part.split(".")[0])
    return f"{found.group(1)}.{found.group(2)}" if found else None


def is_untagged(version: str) -> bool:
    """`0.1.dev18+g1a2b3c4`: what a build from a branch without release tags calls itself. Its number compares with
    nothing; images of models that are not released yet are built so."""
    return re.match(r"0\.1\.dev\d+", version.strip()) is not None


def driver_floor(cuda: str) -> str | None:
    """The least driver for a build of CUDA `cuda`; None for a major that the tables do not hold."""
    number = major(cuda)
    return None if number is None else DRIVER_FLOORS.get(number)


def whole(text: str) -> int | None:
    """A whole number written in plain digits; None for anything else, signs and other scripts' digits included."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
