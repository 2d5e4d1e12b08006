"""What nvidia-smi printed: the banner (old and new labels), `-q`, `-q -x`, `--query-gpu` CSV, `--version`.

From R610 on the banner says `KMD Version` and `CUDA UMD Version` where it said `Driver Version` and `CUDA Version`;
`-q` then has both, the old ones with a bracketed note that itself holds version numbers. The CUDA field is the level
of the libcuda that nvidia-smi found, not of any toolkit.
"""

import csv
import io
from xml.etree.ElementTree import Element, ParseError

import re2
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring
from msgspec import Struct

BYTES_MAX, GPUS_MAX, PROCESSES_MAX, TEXT_MAX = 8 << 20, 1024, 4096, 200


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU. `None` and empty: not said."""

    index: int
    name: str = ""
    uuid: str = ""
    bus_id: str = ""
    serial: str = ""
    vbios: str = ""
    gsp_firmware: str = ""
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ecc_uncorrected: int | None = None
    """Volatile: since the driver was loaded."""
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    recovery_action: str = ""
    fabric_state: str = ""
    fabric_status: str = ""
    clique: str = ""
    cluster: str = ""
    slowdowns: tuple[str, ...] = ()
    """Active clock event reasons that slow the GPU down: `hw_thermal_slowdown`, `sw_power_cap`, ..."""
    compute_capability: str = ""
    line: int = 0
    """Where it stands in the text, from 1."""


class GpuProcess(Struct, frozen=True, kw_only=True):
    gpu: int
    pid: int
    name: str
    memory_mib: int | None = None
    line: int = 0


class NvidiaSmi(Struct, frozen=True, kw_only=True):
    """What one output says; `format` is `banner`, `query`, `xml`, `csv`, `version`, `error` or empty."""

    format: str = ""
    driver: str | None = None
    """Version of the kernel module (KMD)."""
    cuda: str | None = None
    """CUDA level of the user-mode driver (UMD) found, `13.0`."""
    tool: str | None = None
    attached: int | None = None
    gpus: tuple[Gpu, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    error: str = ""
    """The tool's own failure, as printed."""
    line: int = 0
    """Where the driver version stands."""


_DRIVER = re2.compile(r"(?:Driver|KMD) [Vv]ersion\s*:\s*(?P<version>\d+\.\d+[\d.]*)")
_CUDA = re2.compile(r"CUDA (?:UMD )?[Vv]ersion\s*:\s*(?P<version>\d+\.\d+)")
_TOOL = re2.compile(r"NVIDIA-SMI (?:version\s*:\s*)?(?P<version>\d+\.\d+[\d.]*)")
_ERROR = re2.compile(
    r"Failed to initialize NVML[^\n]*|NVIDIA-SMI has failed[^\n]*|No devices were found|"
    r"Unable to determine the device handle[^\n]*|nvidia-smi: (?:command )?not found"
)
_ROW = re2.compile(
    r"^\|\s+(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?P<persistence>On|Off|N/A)\s*\|\s*(?P<bus>[0-9A-Fa-f]{4,8}:\S+)\s+\S+\s*"
    r"\|\s*(?P<ecc>\S+)\s*\|"
)
_MEMORY = re2.compile(r"(?P<used>\d+)\s*MiB\s*/\s*(?P<total>\d+)\s*MiB")
_MIG = re2.compile(r"\|\s*(?P<mig>Enabled|Disabled|N/A)\s*\|\s*$")
_PROCESS = re2.compile(
    r"^\|\s+(?P<gpu>\d+)\s+\S+\s+\S+\s+(?P<pid>\d+)\s+(?:C|G|C\+G|M\+C)\s+(?P<name>\S.*?)\s+(?P<memory>\d+MiB|N/A)\s*\|"
)
_SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown", "sw_power_cap")


def read_nvidia_smi(raw: bytes) -> NvidiaSmi:
    """Whatever nvidia-smi printed, by its look; any bytes are accepted. CSV must have its header line."""
    text = raw[:BYTES_MAX].decode("utf-8", "replace").replace("\x00", "")
    head = text.lstrip()[:4000]
    if head.startswith("<") and "nvidia_smi_log" in head:
        return _xml(text)
    if "NVSMI LOG" in text or _looks_queried(text):
        return _query(text)
    if "NVIDIA-SMI" in text and "|" in text and (found := _banner(text)).gpus:
        return found
    first = head.split("\n", 1)[0]
    if "," in first and any(field in first for field in ("driver_version", "memory.total", "uuid", "pci.bus_id")):
        return _csv(head if len(text) <= 4000 else text.lstrip())
    error = _ERROR.search(text)
    driver, cuda, tool = (_first(pattern, text) for pattern in (_DRIVER, _CUDA, _TOOL))
    kind = "error" if error else "banner" if "|" in text and driver else "version" if driver or tool else ""
    return NvidiaSmi(
        format=kind,
        driver=driver,
        cuda=cuda,
        tool=tool,
        error=error[0][:TEXT_MAX] if error else "",
        line=_line_of(text, _DRIVER),
    )


def _looks_queried(text: str) -> bool:
    labels = ("Product Name", "Remapped Rows", "Fabric", "FB Memory Usage", "Attached GPUs", "ECC Errors")
    return any(label in text for label in labels) and "|--" not in text and " : " in text


def _first(pattern: re2._Regexp, text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _line_of(text: str, pattern: re2._Regexp) -> int:
    found = pattern.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def _whole(text: str | None) -> int | None:
    digits = (text or "").split(" ")[0].rstrip("MiB").replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 15 else None


def _switch(text: str | None) -> bool | None:
    return {"on": True, "enabled": True, "yes": True, "off": False, "disabled": False, "no": False}.get(
        (text or "").strip().lower()
    )


def _banner(text: str) -> NvidiaSmi:
    gpus: list[dict[str, object]] = []
    processes: list[GpuProcess] = []
    for number, row in enumerate(text.split("\n"), 1):
        row = row.rstrip("\r")
        if (found := _ROW.search(row)) and len(gpus) < GPUS_MAX:
            gpus.append(
                {
                    "index": int(found["index"][:6]),
                    "name": found["name"][:TEXT_MAX],
                    "bus_id": found["bus"][:TEXT_MAX],
                    "persistence": _switch(found["persistence"]),
                    "ecc": None if found["ecc"] == "N/A" else found["ecc"].isdigit() or _switch(found["ecc"]),
                    "ecc_uncorrected": _whole(found["ecc"]),
                    "line": number,
                }
            )
        elif gpus and "memory_total_mib" not in gpus[-1] and (found := _MEMORY.search(row)):
            gpus[-1]["memory_used_mib"], gpus[-1]["memory_total_mib"] = _whole(found["used"]), _whole(found["total"])
        elif gpus and "mig" not in gpus[-1] and (found := _MIG.search(row)):
            gpus[-1]["mig"] = _switch(found["mig"])
        elif (found := _PROCESS.search(row)) and len(processes) < PROCESSES_MAX:
            processes.append(
                GpuProcess(
                    gpu=int(found["gpu"][:6]),
                    pid=int(found["pid"][:12]),
                    name=found["name"][:TEXT_MAX],
                    memory_mib=_whole(found["memory"]),
                    line=number,
                )
            )
    return NvidiaSmi(
        format="banner",
        driver=_first(_DRIVER, text),
        cuda=_first(_CUDA, text),
        tool=_first(_TOOL, text),
        attached=len(gpus) or None,
        gpus=tuple(Gpu(**gpu) for gpu in gpus),  # type: ignore[arg-type]
        processes=tuple(processes),
        line=_line_of(text, _DRIVER),
    )


def _query(text: str) -> NvidiaSmi:
    """`nvidia-smi -q`, whole or an excerpt: sections by indent, `label : value`."""
    top: dict[str, str] = {}
    gpus: list[tuple[int, dict[str, str]]] = []
    stack: list[tuple[int, str]] = []
    for number, row in enumerate(text.split("\n"), 1):
        bare = row.strip()
        if not bare or bare.startswith("="):
            continue
        indent = len(row) - len(row.lstrip())
        label, colon, value = bare.partition(" : ") if " : " in bare else bare.partition(":")
        label, value = label.strip(), value.strip().split(" [Deprecated")[0]
        if bare.startswith("GPU ") and ":" in bare and indent == 0 and " : " not in bare:
            if len(gpus) < GPUS_MAX:
                gpus.append((number, {"bus": bare[4:].strip()[:TEXT_MAX]}))
            stack = []
            continue
        while stack and stack[-1][0] >= indent:
            stack.pop()
        path = "/".join([*(name for _, name in stack), label])[:TEXT_MAX]
        if colon and value:
            target = gpus[-1][1] if gpus else top
            target.setdefault(path, value[:TEXT_MAX])
        elif len(stack) < 12:
            stack.append((indent, label))
    excerpt = not gpus and any(not path.startswith(("Timestamp", "Driver", "CUDA", "KMD", "Attached")) for path in top)
    rows = gpus or ([(1, top)] if excerpt else [])
    driver = top.get("KMD Version") or top.get("Driver Version")
    cuda = top.get("CUDA UMD Version") or top.get("CUDA Version")
    return NvidiaSmi(
        format="query",
        driver=driver.split(" ")[0] if driver else None,
        cuda=cuda.split(" ")[0] if cuda else None,
        attached=_whole(top.get("Attached GPUs")) or (len(gpus) or None),
        gpus=tuple(_queried(i, line, fields) for i, (line, fields) in enumerate(rows)),
        line=_line_of(text, _DRIVER),
    )


def _queried(index: int, line: int, fields: dict[str, str]) -> Gpu:
    def said(*ends: str) -> str:
        for end in ends:
            for path, value in fields.items():
                if path == end or path.endswith("/" + end):
                    return "" if value in ("N/A", "[N/A]") else value
        return ""

    active = tuple(
        name
        for name in _SLOWDOWNS
        if said(_label(name)) == "Active" or said(_label(name).replace("HW ", "")) == "Active"
    )
    return Gpu(
        index=index,
        name=said("Product Name"),
        uuid=said("GPU UUID"),
        bus_id=said("Bus Id") or fields.get("bus", ""),
        serial=said("Serial Number"),
        vbios=said("VBIOS Version"),
        gsp_firmware=said("GSP Firmware Version"),
        memory_total_mib=_whole(said("FB Memory Usage/Total")),
        memory_used_mib=_whole(said("FB Memory Usage/Used")),
        persistence=_switch(said("Persistence Mode")),
        mig=_switch(said("MIG Mode/Current")),
        ecc=_switch(said("ECC Mode/Current")),
        ecc_uncorrected=_sum(said("Volatile/DRAM Uncorrectable"), said("Volatile/SRAM Uncorrectable Parity")),
        remapped_correctable=_whole(said("Remapped Rows/Correctable Error")),
        remapped_uncorrectable=_whole(said("Remapped Rows/Uncorrectable Error")),
        remap_pending=_switch(said("Remapped Rows/Pending")),
        remap_failed=_switch(said("Remapped Rows/Remapping Failure Occurred")),
        recovery_action=said("GPU Recovery Action"),
        fabric_state=said("Fabric/State"),
        fabric_status=said("Fabric/Status"),
        clique=said("Fabric/CliqueId", "Fabric/Clique ID"),
        cluster=said("Fabric/ClusterUUID", "Fabric/Cluster UUID"),
        slowdowns=active,
        line=line,
    )


def _label(name: str) -> str:
    words = name.split("_")
    return " ".join([words[0].upper(), *(word.capitalize() for word in words[1:])])


def _sum(*texts: str) -> int | None:
    numbers = [number for text in texts if (number := _whole(text)) is not None]
    return sum(numbers) if numbers else None


def _xml(text: str) -> NvidiaSmi:
    try:
        root: Element = fromstring(text, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    except (ParseError, DefusedXmlException, ValueError, RecursionError) as error:
        return NvidiaSmi(format="xml", error=str(error)[:TEXT_MAX])

    gpus: list[Gpu] = []
    processes: list[GpuProcess] = []
    for index, node in enumerate(root.findall("gpu")[:GPUS_MAX]):
        gpus.append(_xml_gpu(index, node))
        for process in node.findall("processes/process_info")[:PROCESSES_MAX]:
            processes.append(
                GpuProcess(
                    gpu=index,
                    pid=_whole(_said(process, "pid")) or 0,
                    name=_said(process, "process_name"),
                    memory_mib=_whole(_said(process, "used_memory")),
                )
            )
    return NvidiaSmi(
        format="xml",
        driver=_said(root, "kmd_version", "driver_version") or None,
        cuda=_said(root, "cuda_umd_version", "cuda_version") or None,
        attached=_whole(_said(root, "attached_gpus")),
        gpus=tuple(gpus),
        processes=tuple(processes[:PROCESSES_MAX]),
    )


def _said(node: Element, *paths: str) -> str:
    for path in paths:
        value = (node.findtext(path) or "").strip().split(" [Deprecated")[0]
        if value and value != "N/A" and not value.startswith("Requested functionality"):
            return value[:TEXT_MAX]
    return ""


def _xml_gpu(index: int, node: Element) -> Gpu:
    events = node.find("clocks_event_reasons")
    events = node.find("clocks_throttle_reasons") if events is None else events
    active = {child.tag for child in events if (child.text or "").strip() == "Active"} if events is not None else set()
    return Gpu(
        index=index,
        name=_said(node, "product_name"),
        uuid=_said(node, "uuid"),
        bus_id=node.get("id", "")[:TEXT_MAX],
        serial=_said(node, "serial"),
        vbios=_said(node, "vbios_version"),
        gsp_firmware=_said(node, "gsp_firmware_version"),
        memory_total_mib=_whole(_said(node, "fb_memory_usage/total")),
        memory_used_mib=_whole(_said(node, "fb_memory_usage/used")),
        persistence=_switch(_said(node, "persistence_mode")),
        mig=_switch(_said(node, "mig_mode/current_mig")),
        ecc=_switch(_said(node, "ecc_mode/current_ecc")),
        ecc_uncorrected=_sum(
            _said(node, "ecc_errors/volatile/dram_uncorrectable"),
            _said(node, "ecc_errors/volatile/sram_uncorrectable_parity"),
            _said(node, "ecc_errors/volatile/sram_uncorrectable_secded"),
        ),
        remapped_correctable=_whole(_said(node, "remapped_rows/remapped_row_corr")),
        remapped_uncorrectable=_whole(_said(node, "remapped_rows/remapped_row_unc")),
        remap_pending=_switch(_said(node, "remapped_rows/remapped_row_pending")),
        remap_failed=_switch(_said(node, "remapped_rows/remapped_row_failure")),
        recovery_action=_said(node, "gpu_recovery_action"),
        fabric_state=_said(node, "fabric/state"),
        fabric_status=_said(node, "fabric/status"),
        clique=_said(node, "fabric/cliqueId", "fabric/clique_id"),
        cluster=_said(node, "fabric/clusterUuid", "fabric/cluster_uuid"),
        slowdowns=tuple(name for name in _SLOWDOWNS if any(tag.endswith("_" + name) for tag in active)),
    )


def _csv(text: str) -> NvidiaSmi:
    try:
        rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))[: GPUS_MAX + 1]
    except csv.Error as error:
        return NvidiaSmi(format="csv", error=str(error)[:TEXT_MAX])
    names = [name.split(" [")[0].strip() for name in rows[0]]
    gpus: list[Gpu] = []
    driver = None
    for number, row in enumerate(rows[1:], 2):
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=False)}
        cells = {name: "" if cell in ("[N/A]", "N/A", "[Not Supported]") else cell for name, cell in cells.items()}
        if not any(cells.values()):
            continue
        driver = driver or cells.get("driver_version") or None
        gpus.append(
            Gpu(
                index=_whole(cells.get("index")) if cells.get("index", "").isdigit() else len(gpus),  # type: ignore[arg-type]
                name=(cells.get("name") or cells.get("gpu_name", ""))[:TEXT_MAX],
                uuid=(cells.get("uuid") or cells.get("gpu_uuid", ""))[:TEXT_MAX],
                bus_id=cells.get("pci.bus_id", "")[:TEXT_MAX],
                vbios=cells.get("vbios_version", "")[:TEXT_MAX],
                memory_total_mib=_whole(cells.get("memory.total")),
                memory_used_mib=_whole(cells.get("memory.used")),
                persistence=_switch(cells.get("persistence_mode")),
                mig=_switch(cells.get("mig.mode.current")),
                ecc=_switch(cells.get("ecc.mode.current")),
                ecc_uncorrected=_whole(cells.get("ecc.errors.uncorrected.volatile.total")),
                compute_capability=cells.get("compute_cap", "")[:TEXT_MAX],
                line=number,
            )
        )
    return NvidiaSmi(format="csv", driver=driver, attached=len(gpus) or None, gpus=tuple(gpus))
