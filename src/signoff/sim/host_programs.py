"""What the programs of the simulated host print: nvidia-smi in its forms, and docker inspect."""

import json
from collections.abc import Sequence

from signoff.sim.host_facts import Gpu, Host, command

Processes = Sequence[tuple[int, str, int]]


def banner(host: Host) -> str:
    """The box of `nvidia-smi`, in the wording of the driver's branch (R610 renamed both fields)."""
    driver, cuda = host.driver_loaded or "N/A", host.smi_cuda or "N/A"
    renamed = driver.split(".")[0].isdigit() and int(driver.split(".")[0]) >= 610
    kmd, umd = ("KMD Version", "CUDA UMD Version") if renamed else ("Driver Version", "CUDA Version")
    lines = [
        "Tue Dec  1 04:00:00 2026",
        "+" + "-" * 89 + "+",
        f"| NVIDIA-SMI {driver:<23}{kmd}: {driver:<15}{umd}: {cuda:<9}|",
        "+" + "-" * 89 + "+",
    ]
    for gpu in host.gpus:
        memory = f"{gpu.used_mib}MiB / {gpu.memory_mib}MiB"
        lines.append(f"|  {gpu.index:>2}  {gpu.name:<28} On  | {gpu.bus} Off | {memory:>22} |")
    return "\n".join([*lines, "+" + "-" * 89 + "+", ""])


def smi_xml(host: Host, workers: Processes) -> str:
    """`nvidia-smi -q -x`; `workers` holds one process of the server for each GPU."""
    gpus = "".join(_gpu_xml(gpu, workers[gpu.index : gpu.index + 1], host) for gpu in host.gpus)
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        f"\t<timestamp>Tue Dec  1 04:00:00 2026</timestamp>\n\t<driver_version>{host.driver_loaded}</driver_version>\n"
        f"\t<cuda_version>{host.smi_cuda}</cuda_version>\n\t<attached_gpus>{len(host.gpus)}</attached_gpus>\n"
        f"{gpus}</nvidia_smi_log>\n"
    )


def _gpu_xml(gpu: Gpu, workers: Processes, host: Host) -> str:
    slow = "Active" if gpu.throttled else "Not Active"
    processes = "".join(
        f"\t\t\t<process_info>\n\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>\n\t\t\t\t<pid>{pid}</pid>\n"
        f"\t\t\t\t<type>C</type>\n\t\t\t\t<process_name>{name}</process_name>\n"
        f"\t\t\t\t<used_memory>{mib} MiB</used_memory>\n\t\t\t</process_info>\n"
        for pid, name, mib in (*workers, *gpu.processes)
    )
    fields = f"""\t<gpu id="{gpu.bus}">
\t\t<product_name>{gpu.name}</product_name>
\t\t<product_brand>NVIDIA</product_brand>
\t\t<product_architecture>Blackwell</product_architecture>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<addressing_mode>None</addressing_mode>
\t\t<mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
\t\t<serial>165{gpu.index:010d}</serial>
\t\t<uuid>{gpu.uuid}</uuid>
\t\t<minor_number>{gpu.index}</minor_number>
\t\t<vbios_version>97.10.4C.00.0{gpu.index}</vbios_version>
\t\t<gsp_firmware_version>{host.driver_loaded}</gsp_firmware_version>
\t\t<gpu_recovery_action>None</gpu_recovery_action>
\t\t<pci><pci_bus_id>{gpu.bus}</pci_bus_id><pci_gpu_link_info><pcie_gen><max_link_gen>6</max_link_gen>\
<current_link_gen>6</current_link_gen></pcie_gen><link_widths><max_link_width>16x</max_link_width>\
<current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info>\
<replay_counter>0</replay_counter></pci>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_hw_slowdown>{slow}</clocks_event_reason_hw_slowdown>
\t\t\t<clocks_event_reason_hw_thermal_slowdown>{slow}</clocks_event_reason_hw_thermal_slowdown>
\t\t\t<clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
\t\t</clocks_event_reasons>
\t\t<fb_memory_usage><total>{gpu.memory_mib} MiB</total><reserved>612 MiB</reserved>\
<used>{gpu.used_mib} MiB</used><free>{gpu.memory_mib - gpu.used_mib - 612} MiB</free></fb_memory_usage>
\t\t<ecc_mode><current_ecc>{gpu.ecc}</current_ecc><pending_ecc>{gpu.ecc}</pending_ecc></ecc_mode>
\t\t<ecc_errors><volatile><sram_correctable>0</sram_correctable>\
<sram_uncorrectable_parity>0</sram_uncorrectable_parity><sram_uncorrectable_secded>0</sram_uncorrectable_secded>\
<dram_correctable>0</dram_correctable><dram_uncorrectable>{gpu.uncorrectable_errors}</dram_uncorrectable>\
</volatile></ecc_errors>
\t\t<remapped_rows><remapped_row_corr>0</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>\
<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
\t\t<fabric><state>{gpu.fabric_state}</state><status>{gpu.fabric_status}</status></fabric>
"""
    return f"{fields}\t\t<processes>\n{processes}\t\t</processes>\n\t</gpu>\n"


def smi_topology(host: Host) -> str:
    """`nvidia-smi topo -m`."""
    names = [f"GPU{gpu.index}" for gpu in host.gpus]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for row in host.gpus:
        cells = [" X " if row.index == column.index else "NV18" for column in host.gpus]
        lines.append(f"GPU{row.index}\t" + "\t".join([*cells, "0-55,112-167", "0", "N/A"]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing # NVLinks", ""])


def smi_csv(host: Host) -> str:
    """`nvidia-smi --query-gpu=index,uuid,name,pci.bus_id,driver_version,memory.total,compute_cap --format=csv`."""
    return "".join(
        f"{gpu.index}, {gpu.uuid}, {gpu.name}, {gpu.bus}, {host.driver_loaded}, {gpu.memory_mib}, {gpu.compute_cap}\n"
        for gpu in host.gpus
    )


def inspect_container(host: Host, port: int, pid: int, started: str) -> str:
    """`docker inspect CONTAINER`."""
    return json.dumps(
        [
            {
                "Id": host.container,
                "Created": started,
                "Image": host.image_id,
                "Name": "/kimi-k3",
                "State": {"Status": "running", "Running": True, "Pid": pid, "StartedAt": started},
                "RestartCount": 0,
                "Config": {
                    "Image": host.image,
                    "Env": [f"{name}={value}" for name, value in host.environment.items()],
                    "Cmd": list(command(host, port)[2:]),
                },
                "HostConfig": {
                    "Runtime": "nvidia",
                    "NetworkMode": "host",
                    "IpcMode": "private",
                    "ShmSize": host.shm_mib * 1024 * 1024,
                    "DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}],
                },
            }
        ]
    )


def inspect_image(host: Host) -> str:
    """`docker image inspect IMAGE`."""
    name = host.image.rsplit(":", 1)[0]
    digests = [f"{name}@{host.image_digest}"] if host.image_digest else []
    return json.dumps(
        [
            {
                "Id": host.image_id,
                "RepoTags": [host.image],
                "RepoDigests": digests,
                "Created": "2026-08-19T06:12:44Z",
                "Os": "linux",
                "Architecture": "amd64",
                "Config": {"Env": [f"CUDA_VERSION={host.environment.get('CUDA_VERSION', '')}"], "Labels": {}},
            }
        ]
    )
