"""Clues of the machine: driver against image, GPU against image, weights against memory, layout against GPUs."""

import re2

from signoff.core.words import Cause, Phase, Severity, VerdictName
from signoff.judge.lean.agreement import agreement_clues
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless, line_with
from signoff.read.case_file import CaseFile

_ENV, _HW, _TOPO = Cause.ENVIRONMENT, Cause.HARDWARE, Cause.TOPOLOGY
_FLOORS = {"13": (580, 65, 6), "12": (525, 60, 13), "11": (450, 80, 2)}
"""Least driver of a CUDA release, minor versions compatible (NVIDIA, CUDA compatibility)."""
_CAPABILITY = (
    ("B300", 103), ("B200", 100), ("GB300", 103), ("GB200", 100), ("H200", 90), ("H100", 90), ("H800", 90), ("H20", 90),
    ("GH200", 90), ("L40", 89), ("L4", 89), ("4090", 89), ("6000 Ada", 89), ("A100", 80), ("A800", 80), ("A30", 80),
    ("A10", 86), ("A40", 86), ("3090", 86), ("A6000", 86), ("T4", 75), ("V100", 70),
)  # fmt: skip
_K3_CAPABILITY_MIN = 90
"""The K3 image is built for Hopper and Blackwell (recipe: verified hardware)."""
_BYTES = re2.compile(
    r"(?i)(?:total_?size(?:_bytes)?|(?:checkpoint|weights?|model)[ _]?size\w*)\W{1,4}(?P<n>[\d.,]+)\s*"
    r"(?P<unit>[KMGT]i?B)?"
)
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def platform_clues(case: Case) -> list[Clue]:
    """Driver, devices, fabric, memory arithmetic and layout."""
    out = _driver(case) + _devices(case) + _arithmetic(case) + _layout(case) + agreement_clues(case)
    image, _ = case.image()
    if "kimi-k3" in image:
        out += _capability(case)
    return out


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "").split(".") if part.isdigit() and len(part) < 6)


def _driver(case: Case) -> list[Clue]:
    out: list[Clue] = []
    _, cuda = case.image()
    for file in case.of("nvidia_smi"):
        driver = file.smi.driver
        if file.smi.error:
            line, text = line_with(file.text, file.smi.error[:60])
            why = "nvidia-smi itself could not reach the driver."
            out.append(failing("nvml_broken", _ENV, Phase.LOAD, VerdictName.REWORK, 90, file.name, line, text, why))
        if not driver:
            continue
        line, text = line_with(file.text, driver)
        floor = _FLOORS.get(cuda.split(".")[0]) if cuda else None
        if floor and _version(driver) < floor:
            why = f"The image needs CUDA {cuda}, which needs driver {floor[0]} or newer; {driver} is loaded."
            out.append(failing("driver_old", _ENV, Phase.LOAD, VerdictName.REWORK, 88, file.name, line, text, why))
        else:
            why = f"Driver {driver} is loaded" + (f", enough for the image's CUDA {cuda}." if cuda else ".")
            out.append(harmless("driver_seen", Phase.LOAD, file.name, line, text, why))
    return out


def _devices(case: Case) -> list[Clue]:
    out: list[Clue] = []
    for file in case.of("nvidia_smi"):
        for gpu in file.smi.gpus:
            for label, bad, weight, why in (
                ("Remapping Failure", gpu.remap_failed, 130, "A GPU could not remap a bad memory row."),
                ("Pending", gpu.remap_pending, 120, "A GPU waits for a reset to remap a bad memory row."),
                ("Recovery Action", gpu.recovery_action.lower() not in ("", "none"), 110, "The GPU demands recovery."),
                ("Uncorr", (gpu.ecc_uncorrected or 0) > 0, 100, "Uncorrectable memory errors since the driver loaded."),
            ):
                if bad:
                    line, text = line_with(file.text, label)
                    line = gpu.line if file.smi.format == "banner" else line
                    text = f"{text} (GPU {gpu.index})" if text else f"GPU {gpu.index} {gpu.name}"
                    phase, verdict = Phase.SOAK, VerdictName.REWORK
                    out.append(failing("gpu_memory", _HW, phase, verdict, weight, file.name, line, text, why))
            if gpu.fabric_state and gpu.fabric_state.lower() not in ("completed", "n/a", "not supported"):
                line, text = line_with(file.text, gpu.fabric_state)
                why = "The GPU has not joined the NVLink fabric: Fabric Manager or subnet manager is not up."
                out.append(failing("fabric", _ENV, Phase.LOAD, VerdictName.REWORK, 92, file.name, line, text, why))
            if gpu.slowdowns and any("thermal" in name or name == "hw_slowdown" for name in gpu.slowdowns):
                text, why = f"GPU {gpu.index}: {', '.join(gpu.slowdowns)}", "The GPU throttles."
                out.append(
                    failing("throttled", _HW, Phase.SOAK, VerdictName.REWORK, 60, file.name, gpu.line, text, why)
                )
    return out


def _capability(case: Case) -> list[Clue]:
    out: list[Clue] = []
    for file in case.of("nvidia_smi"):
        for gpu in file.smi.gpus[:1]:
            found = next((level for name, level in _CAPABILITY if name in gpu.name), None)
            if found is not None and found < _K3_CAPABILITY_MIN:
                why = f"The kimi-k3 image holds no code for {gpu.name} (compute capability {found / 10})."
                line, text = line_with(file.text, gpu.name)
                out.append(
                    failing("no_kernel_image", _ENV, Phase.WARMUP, VerdictName.REWORK, 86, file.name, line, text, why)
                )
    return out


def weights_bytes(case: Case) -> tuple[float, CaseFile | None, str]:
    """Bytes of the checkpoint as a file says them, that file, and the words it stands in."""
    for file in case.of("text", "json", "log"):
        found = _BYTES.search(file.text[:100_000])
        if found is None:
            continue
        unit = (found["unit"] or "").rstrip("Bb")
        try:
            size = float(found["n"].replace(",", "").rstrip(".")) * _UNITS.get(unit, 1)
        except ValueError:
            continue
        if size > 1e9:
            return size, file, found[0]
    return 0.0, None, ""


def _whole(flags: dict[str, str], key: str) -> int:
    text = flags.get(key, "1")
    return max(1, int(text)) if text.isdigit() and len(text) < 6 else 1


def _arithmetic(case: Case) -> list[Clue]:
    """Weights of one rank against the memory of one GPU, as far as the launch may use it."""
    size, _, _ = weights_bytes(case)
    file, smi = case.smi()
    _, launch = case.launch()
    totals = [gpu.memory_total_mib for gpu in smi.gpus if gpu.memory_total_mib]
    if not size or not totals or file is None or not launch.engine:
        return []
    ranks = _whole(launch.flags, "tensor-parallel-size") * _whole(launch.flags, "pipeline-parallel-size")
    expert = _whole(launch.flags, "data-parallel-size") if "enable-expert-parallel" in launch.flags else 1
    each, least = size / (ranks * expert), min(totals) * 2**20
    if each <= least * 0.97:
        return []
    line, text = line_with(file.text, str(min(totals)))
    gpus = len(smi.gpus) * _whole(launch.flags, "nnodes")
    why = (
        f"{size / 1e9:.0f} GB of weights over {ranks * expert} ranks are {each / 1e9:.0f} GB each; "
        f"a GPU has {least / 1e9:.0f} GB."
    )
    fits = size / max(gpus, ranks * expert) < least * 0.9
    verdict = VerdictName.REWORK if fits else VerdictName.SCALE
    return [failing("weights_too_large", _TOPO, Phase.LOAD, verdict, 90, file.name, line, text, why)]


def _layout(case: Case) -> list[Clue]:
    """More ranks than GPUs."""
    file, launch = case.launch()
    _, smi = case.smi()
    if file is None or not smi.gpus or smi.format not in ("banner", "xml", "csv"):
        return []
    ranks = _whole(launch.flags, "tensor-parallel-size") * _whole(launch.flags, "pipeline-parallel-size")
    nodes = _whole(launch.flags, "nnodes")
    visible = launch.env.get("CUDA_VISIBLE_DEVICES") or launch.env.get("NVIDIA_VISIBLE_DEVICES", "")
    gpus = len(visible.split(",")) if visible and visible[0].isdigit() else len(smi.gpus)
    if (
        ranks <= gpus * nodes
        or launch.env.get("RAY_ADDRESS")
        or "ray" in launch.flags.get("distributed-executor-backend", "")
    ):
        return []
    key = "tensor-parallel-size"
    line, text = line_with(file.text, key)
    why = f"{ranks} ranks are asked for and {gpus * nodes} GPUs are there."
    clue = failing("layout_world", _TOPO, Phase.LOAD, VerdictName.REWORK, 55, file.name, line, text, why)
    return [clue] if len(smi.gpus) > 2 or visible else [_shown_in_part(clue)]


def _shown_in_part(clue: Clue) -> Clue:
    """A pasted banner is often cut after a GPU or two, so that a small count proves little."""
    return Clue(kind=clue.kind, severity=Severity.INFO, file=clue.file, line=clue.line, text=clue.text, why=clue.why)
