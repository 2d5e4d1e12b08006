"""Clues of parts that must be alike and are not: nodes, packages of one release, links of one machine."""

from collections import Counter

import re2

from signoff.core.words import Cause, Phase, VerdictName
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless, line_with

_ENV, _LOAD, _REWORK = Cause.ENVIRONMENT, Phase.LOAD, VerdictName.REWORK
_PACKAGE = re2.compile(r"(?m)^(?:\[pip3\] )?(?P<name>flashinfer[\w-]*|torch\w*|vllm[\w-]*|nvidia-nccl-cu\d+)"
                       r"(?:==| +)(?P<version>\d[\w.+]*)")  # fmt: skip
_CUDA_TAG = re2.compile(r"\+cu(?P<cuda>\d\d)\d")
_NVLINKED = ("H100", "H200", "H800", "B200", "B300", "GB200", "GB300", "A100-SXM", "SXM")


def agreement_clues(case: Case) -> list[Clue]:
    return _nodes(case) + _packages(case) + _links(case)


def _nodes(case: Case) -> list[Clue]:
    """Drivers, vLLM and NCCL must be the same wherever one server runs."""
    out: list[Clue] = []
    drivers = {file.smi.driver: file for file in case.of("nvidia_smi") if file.smi.driver}
    if len(drivers) > 1:
        driver, file = sorted(drivers.items(), key=lambda item: str(item[0]))[0]
        line, text = line_with(file.text, str(driver))
        why = f"Nodes have different drivers: {', '.join(sorted(str(name) for name in drivers))}."
        out.append(failing("nodes_differ", _ENV, _LOAD, _REWORK, 58, file.name, line, text, why))
    for what in ("version", "nccl"):
        values = {str(getattr(file.log, what)): file for file in case.of("log") if getattr(file.log, what)}
        if len(values) > 1:
            value, file = sorted(values.items())[0]
            line, text = line_with(file.text, value.strip("(),'"))
            why = f"Nodes run different {'vLLM' if what == 'version' else 'NCCL'}: {', '.join(sorted(values))}."
            out.append(failing("nodes_differ", _ENV, _LOAD, _REWORK, 58, file.name, line, text, why))
    return out


def _packages(case: Case) -> list[Clue]:
    """Packages of one release, and one CUDA release over all builds."""
    out: list[Clue] = []
    for file in case.of("text"):
        found = {match["name"]: match["version"] for match in _PACKAGE.finditer(file.text[:200_000])}
        flash = {version.split("+")[0] for name, version in found.items() if name.startswith("flashinfer")}
        if len(flash) > 1:
            line, text = line_with(file.text, "flashinfer")
            why = f"FlashInfer's packages are of different releases: {', '.join(sorted(flash))}."
            out.append(failing("package_mismatch", _ENV, _LOAD, _REWORK, 62, file.name, line, text, why))
        cudas = {match["cuda"]: version for version in found.values() if (match := _CUDA_TAG.search(version))}
        if len(cudas) > 1:
            line, text = line_with(file.text, next(iter(cudas.values())))
            why = f"Packages are built for different CUDA releases: {', '.join(sorted(cudas.values()))}."
            out.append(failing("package_mismatch", _ENV, _LOAD, _REWORK, 62, file.name, line, text, why))
    return out


def _links(case: Case) -> list[Clue]:
    """GPUs that should be joined by NVLink and are not."""
    out: list[Clue] = []
    _, smi = case.smi()
    nvlinked = any(part in gpu.name and "PCIe" not in gpu.name and "NVL" not in gpu.name for gpu in smi.gpus[:1]
                   for part in _NVLINKED)  # fmt: skip
    for file in case.files:
        links = [link for link in file.topology.links if link.one.startswith("GPU") and link.other.startswith("GPU")]
        if not links:
            continue
        codes = Counter("NV" if link.code.startswith("NV") else link.code for link in links)
        odd = [link for link in links if not link.code.startswith("NV")]
        line, text = line_with(file.text, "GPU0")
        if codes["NV"] and odd:
            row = odd[0]
            _, text = line_with(file.text, f"{row.one}\t") if f"{row.one}\t" in file.text else (row.line, row.one)
            why = f"{row.one} reaches {row.other} by {row.code} while others are joined by NVLink: a link is down."
            out.append(failing("link_down", Cause.HARDWARE, _LOAD, _REWORK, 60, file.name, row.line, text, why))
        elif not codes["NV"] and nvlinked:
            why = "GPUs that have NVLink reach each other over PCIe only: fabric or driver state."
            out.append(failing("link_down", _ENV, _LOAD, _REWORK, 60, file.name, line, text, why))
        else:
            out.append(harmless("links", _LOAD, file.name, line, text, "All GPUs reach each other alike."))
    return out
