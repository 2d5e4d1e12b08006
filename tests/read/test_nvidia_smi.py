"""nvidia-smi in every form it prints, old labels and new."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.nvidia_smi import read_nvidia_smi

BANNER = """
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver}              {labels}     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA B300 SXM6 AC           On   |   00000000:1B:00.0 Off |                    0 |
| N/A   34C    P0            118W / 1100W |    1024MiB / 275040MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA B300 SXM6 AC           Off  |   00000000:23:00.0 Off |                    3 |
| N/A   34C    P0            118W / 1100W |       0MiB / 275040MiB |      0%      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|    0   N/A  N/A            4711      C   /usr/bin/python3                       1000MiB |
"""
QUERY = """
==============NVSMI LOG==============
Timestamp                                 : Mon Sep 14 06:00:00 2026
Driver Version                            : 610.57.04 [Deprecated; removed in CUDA 14.0. Use KMD Version instead]
CUDA Version                              : 13.3 [Deprecated; removed in CUDA 14.0. Use CUDA UMD Version instead]
KMD Version                               : 610.57.04
CUDA UMD Version                          : 13.3
Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA B300
    Persistence Mode                      : Enabled
    GSP Firmware Version                  : 610.57.04
    FB Memory Usage
        Total                             : 275040 MiB
        Used                              : 512 MiB
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 2
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Fabric
        State                             : Completed
        Status                            : Success
"""
XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>580.126.20</driver_version><cuda_version>13.0</cuda_version><attached_gpus>1</attached_gpus>
  <gpu id="00000000:1B:00.0">
    <product_name>NVIDIA H200</product_name><uuid>GPU-1</uuid><persistence_mode>Enabled</persistence_mode>
    <fb_memory_usage><total>143771 MiB</total><used>4 MiB</used></fb_memory_usage>
    <clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
    <clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap></clocks_event_reasons>
    <remapped_rows><remapped_row_unc>0</remapped_row_unc><remapped_row_pending>No</remapped_row_pending></remapped_rows>
    <fabric><state>Completed</state><status>Success</status></fabric>
    <processes><process_info>
      <pid>7</pid><process_name>python</process_name><used_memory>9 MiB</used_memory>
    </process_info></processes>
  </gpu>
</nvidia_smi_log>
"""


def test_old_banner() -> None:
    text = BANNER.format(driver="580.95.05", labels="Driver Version: 580.95.05      CUDA Version: 13.0")
    smi = read_nvidia_smi(text.encode())
    assert (smi.format, smi.driver, smi.cuda, len(smi.gpus)) == ("banner", "580.95.05", "13.0", 2)
    first, second = smi.gpus
    assert (first.name, first.persistence, first.memory_total_mib, first.memory_used_mib) == (
        "NVIDIA B300 SXM6 AC", True, 275040, 1024,
    )  # fmt: skip
    assert (first.mig, first.ecc_uncorrected) == (False, 0)
    assert (second.persistence, second.mig, second.ecc_uncorrected) == (False, True, 3)
    assert (smi.processes[0].pid, smi.processes[0].memory_mib) == (4711, 1000)


def test_banner_of_r610() -> None:
    text = BANNER.format(driver="610.43.02", labels="KMD Version: 610.43.02       CUDA UMD Version: 13.3")
    smi = read_nvidia_smi(text.encode())
    assert (smi.driver, smi.cuda) == ("610.43.02", "13.3")


def test_query_with_notes_that_hold_version_numbers() -> None:
    smi = read_nvidia_smi(QUERY.encode())
    assert (smi.format, smi.driver, smi.cuda, smi.attached) == ("query", "610.57.04", "13.3", 1)
    gpu = smi.gpus[0]
    assert (gpu.name, gpu.persistence, gpu.gsp_firmware) == ("NVIDIA B300", True, "610.57.04")
    assert (gpu.remapped_uncorrectable, gpu.remap_pending, gpu.remap_failed) == (2, True, False)
    assert (gpu.fabric_state, gpu.fabric_status) == ("Completed", "Success")
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (275040, 512)


def test_xml() -> None:
    smi = read_nvidia_smi(XML.encode())
    assert (smi.format, smi.driver, smi.cuda, smi.error) == ("xml", "580.126.20", "13.0", "")
    assert smi.gpus[0].slowdowns == ("hw_thermal_slowdown",)
    assert smi.processes[0].pid == 7


def test_xml_entities_are_refused() -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]><nvidia_smi_log><gpu>&a;</gpu></nvidia_smi_log>'
    smi = read_nvidia_smi(bomb.encode())
    assert smi.gpus == ()
    assert smi.error


def test_csv_with_header() -> None:
    raw = (
        b"index, uuid, name, driver_version, memory.total [MiB], persistence_mode\n"
        b"0, GPU-1, NVIDIA H200, 580.95.05, 143771 MiB, Enabled\n"
    )
    smi = read_nvidia_smi(raw)
    assert (smi.format, smi.driver, smi.gpus[0].memory_total_mib) == ("csv", "580.95.05", 143771)


def test_version_and_failure() -> None:
    assert (
        read_nvidia_smi(b"NVIDIA-SMI version  : 616.56\nKMD version : 616.56\nCUDA UMD version : 13.4\n").cuda == "13.4"
    )
    failed = read_nvidia_smi(
        b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n"
    )
    assert failed.format == "error"
    assert "mismatch" in failed.error
    assert failed.driver is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([BANNER, QUERY, XML]), st.integers(0, 2500))
def test_any_bytes(noise: bytes, sample: str, at: int) -> None:
    raw = sample.encode()
    read_nvidia_smi(noise)
    read_nvidia_smi(raw[:at] + noise + raw[at:])
