"""`nvidia-smi topo -m`."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.topology import read_topology

MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPXB\t0-51\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t0-51\t0\t\tN/A
NIC0\tPXB\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
"""


def test_matrix() -> None:
    topology = read_topology(MATRIX.encode())
    assert topology.gpus == ("GPU0", "GPU1")
    assert topology.nics == ("NIC0",)
    assert {(link.one, link.other): link.code for link in topology.links} == {
        ("GPU0", "GPU1"): "NV18",
        ("GPU0", "NIC0"): "PXB",
        ("GPU1", "GPU0"): "NV18",
        ("GPU1", "NIC0"): "SYS",
        ("NIC0", "GPU0"): "PXB",
        ("NIC0", "GPU1"): "SYS",
    }
    assert topology.nic_names == {"NIC0": "mlx5_0"}
    assert topology.links[0].line == 2


def test_nothing() -> None:
    assert read_topology(b"no matrix here").links == ()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    read_topology(raw)
    read_topology(MATRIX.encode() + raw)
