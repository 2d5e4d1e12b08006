"""`nvidia-smi topo -m`: how each GPU reaches each other GPU and network card.

Codes: `X` itself, `NV#` NVLink, `PIX` one PCIe switch, `PXB` several, `PHB` host bridge, `NODE` within a NUMA node,
`SYS` across NUMA nodes.
"""

from collections.abc import Mapping

import re2
from msgspec import Struct

BYTES_MAX, NAMES_MAX, LEGEND_MAX = 1 << 20, 300, 300


class TopologyLink(Struct, frozen=True):
    one: str
    other: str
    code: str
    line: int


class Topology(Struct, frozen=True, kw_only=True):
    """Empty when the text holds no matrix."""

    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    links: tuple[TopologyLink, ...] = ()
    """Every pair in both directions, without a device's link to itself."""
    nic_names: Mapping[str, str] = {}
    """`NIC0` to `mlx5_0`."""


_DEVICE = re2.compile(r"^(?:GPU\d+|NIC\d+|mlx\d+_\w+)$")
_LEGEND = re2.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$")
_ESCAPE = re2.compile(r"\x1b\[[0-9;]*m")


def read_topology(raw: bytes) -> Topology:
    """The matrix; any bytes are accepted."""
    text = _ESCAPE.sub("", raw[:BYTES_MAX].decode("utf-8", "replace"))
    columns: list[str] = []
    rows: dict[str, None] = {}
    links: list[TopologyLink] = []
    legend: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.split()
        if not cells:
            continue
        if not columns and cells[0] == "GPU0" and len(cells) > 1 and cells[1] not in ("X",):
            columns = [cell for cell in cells[:NAMES_MAX] if _DEVICE.match(cell)]
        elif not columns and cells[0] == "GPU0" and len(cells) == 1:
            columns = ["GPU0"]
        elif columns and _DEVICE.match(cells[0]) and len(cells) > len(columns) and len(rows) < NAMES_MAX:
            rows[cells[0]] = None
            links += [
                TopologyLink(cells[0], column, code, number)
                for column, code in zip(columns, cells[1:], strict=False)
                if code != "X"
            ]
        elif (found := _LEGEND.match(line)) and len(legend) < LEGEND_MAX:
            legend[found[1]] = found[2][:100]
    return Topology(
        gpus=tuple(name for name in rows if name.startswith("GPU")),
        nics=tuple(name for name in rows if not name.startswith("GPU")),
        links=tuple(links),
        nic_names=legend,
    )
