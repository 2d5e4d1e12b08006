"""The words of the environment gate's findings: the compatibility chain. The rest stands in `environment_more`."""

from collections.abc import Mapping

from signoff.core.words import Outcome
from signoff.judge.catalogue import environment_launch, environment_more
from signoff.judge.catalogue.entry import Entry

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


def link(
    name: str,
    title: str,
    *,
    checked: str,
    matters: str,
    measured: str,
    changes: str,
    passed: str,
    failed: str,
    mend: str,
    look: str,
) -> Entry:
    """An entry of one link: which links there are is said by the profile, so none is expected always."""
    sentences: Mapping[Outcome, str] = {
        PASS: passed,
        FAIL: failed,
        UNCLEAR: title + " on {subject}: not proved: {reason}. Read: {readings}; not read: {missing}.",
    }
    return Entry(
        code=f"environment.chain.{name}",
        always=False,
        title=title,
        checked=checked,
        matters=matters,
        measured=measured,
        changes=changes,
        sentences=sentences,
        next_step={FAIL: mend, UNCLEAR: look},
    )


CHAIN: tuple[Entry, ...] = (
    link(
        "platform",
        "Platform of the build",
        checked="Whether PyTorch in the server's environment is built for the platform that the profile is about.",
        matters="A profile for GPUs can prove nothing about a CPU build, nor the other way round.",
        measured="PyTorch's version file as text, its package metadata, its library folder, and mapped libraries.",
        changes="A server that runs the profile's platform, or the profile of this one.",
        passed="The build on {subject} is for {observed}, by {sources} independent sources.",
        failed="The build on {subject} is for {observed}; the profile wants {equals}.",
        mend="Deploy the image that the profile names, or judge by the profile of this platform.",
        look="Probe where the server's process and packages can be read; on a CPU build take profile vllm-cpu.",
    ),
    link(
        "driver",
        "Loaded kernel driver",
        checked="The version of the NVIDIA kernel module that is loaded, not only installed.",
        matters="It alone decides which CUDA builds run natively; a container that starts proves nothing about it.",
        measured="/proc/driver/nvidia/version and /sys/module, nvidia-smi's driver field, and the driver's own library "
        "that the workers have mapped.",
        changes="A driver at or above the floor, loaded after a reboot, read from two sources.",
        passed="Driver {observed} is loaded on {subject} ({flavour} module), at or above {floor}.",
        failed="On {subject} {reason}.",
        mend="Install an R580 or newer data-center driver and reboot the host; no setting of the server replaces it.",
        look="Probe the host itself: /proc/driver/nvidia/version must be readable and nvidia-smi must answer.",
    ),
    link(
        "libcuda",
        "Mapped user-mode driver",
        checked="Which libcuda the server's processes have really mapped, and whether it is the loaded driver's own.",
        matters="A libcuda out of the image's compat folder runs on an old driver without being R580, and an old one "
        "shadows a newer driver (error 803).",
        measured="Paths in /proc/PID/maps of every process of the server, and the version inside the mapped file.",
        changes="Processes that map the host driver's libcuda.",
        passed="Processes on {subject} map {path}, of driver {driver}.",
        failed="libcuda on {subject}: {reason}.",
        mend="Remove compat folders from LD_LIBRARY_PATH and ld.so configuration of the container, or mend the driver "
        "installation, and start again.",
        look="Probe with the right to read the workers' maps (same user or root).",
    ),
    link(
        "cuda_runtime",
        "CUDA runtime library",
        checked="The CUDA runtime that the processes have mapped, against the build.",
        matters="A runtime of another CUDA major than the build was never tested with it.",
        measured="Mapped libcudart and the metadata of its package.",
        changes="An image whose runtime and build are of one CUDA major.",
        passed="CUDA runtime {version} on {subject}, CUDA {wanted} as wanted.",
        failed="CUDA runtime on {subject}: {reason}.",
        mend="Rebuild the environment from the official image and its dependency lock.",
        look="Probe with the right to read the workers' maps.",
    ),
    link(
        "cuda_build",
        "CUDA of the PyTorch build",
        checked="The CUDA version that PyTorch was built with.",
        matters="Kernels of another CUDA major are other kernels: nothing measured with them holds for the recipe.",
        measured="PyTorch's version file as text and the local versions of PyTorch's and FlashInfer's packages.",
        changes="An image with a build of the wanted CUDA major.",
        passed="PyTorch on {subject} is built with CUDA {observed}.",
        failed="PyTorch on {subject}: {reason}.",
        mend="Use the official image; do not install other wheels of PyTorch or FlashInfer into it.",
        look="Probe where the server's packages can be read.",
    ),
    link(
        "torch_build",
        "PyTorch build",
        checked="Whether PyTorch is the build for the profile's platform.",
        matters="The profile's proof is about this build and no other.",
        measured="PyTorch's version file as text and its package metadata.",
        changes="An environment with that build.",
        passed="PyTorch on {subject} is {observed}.",
        failed="PyTorch on {subject} is {observed}; wanted is a {platform} build.",
        mend="Install PyTorch's build for this platform.",
        look="Probe where the server's packages can be read.",
    ),
    link(
        "nccl",
        "Communication libraries",
        checked="That every process maps one NCCL, one CUDA runtime and one cuDNN, and which NCCL it is.",
        matters="Two copies in one process hang or corrupt; the installed version is not always the loaded one.",
        measured="Mapped files, the version inside the NCCL file, package metadata, the launch log.",
        changes="One copy of each, whose version two sources tell.",
        passed="NCCL {observed} on {subject}, one copy.",
        failed="Communication libraries on {subject}: {reason}.",
        mend="Remove the second copy (LD_PRELOAD, VLLM_NCCL_SO_PATH, system packages) and start again.",
        look="Probe with the right to read the workers' maps.",
    ),
    link(
        "image",
        "Container image",
        checked="The image that the container runs: name, tag, and a digest that can be pulled again.",
        matters="A tag is pushed again and again; only a digest says what was accepted.",
        measured="The container's record and the image store of the container runtime.",
        changes="The recipe's image, pulled by digest.",
        passed="{observed} at {digest} on {subject}.",
        failed="Image on {subject}: {reason}.",
        mend="Deploy the recipe's image from its registry by digest.",
        look="Probe on the host, where the container runtime can be asked.",
    ),
    link(
        "vllm_build",
        "vLLM build",
        checked="The vLLM version that runs: as installed, as answered and as logged.",
        matters="A model's support begins with a version; files on disk may be newer than the running process.",
        measured="Package metadata, version file, GET /version, launch log.",
        changes="All sources telling one version at or above the recipe's.",
        passed="vLLM {observed} on {subject}, by {sources} sources.",
        failed="vLLM on {subject}: {reason}.",
        mend="Deploy the recipe's image, whose vLLM has the model's support.",
        look="Compare what is installed with what GET /version answers, and restart when they differ.",
    ),
    link(
        "gpu",
        "GPUs",
        checked="Kind and number of the GPUs that the node has.",
        matters="A result holds only for the GPUs it was measured on.",
        measured="nvidia-smi and /proc/driver/nvidia/gpus.",
        changes="Both sources telling the same GPUs, of a kind the recipe was verified on.",
        passed="{subject} has {observed}.",
        failed="GPUs of {subject}: {reason}.",
        mend="Move to hardware that the recipe names.",
        look="Probe the host, where nvidia-smi answers.",
    ),
    link(
        "process",
        "Process that answers",
        checked="That the probed process is the server that answers at the base URL.",
        matters="Evidence of another process, boot or machine proves nothing about this service.",
        measured="The listening port's owner, the process start against the server's own metrics, the boot identifier.",
        changes="A probe on the node that serves, with the right to see the server's sockets.",
        passed="Process {pid} on {subject} is the server that answers, in boot {boot_id}.",
        failed="Process on {subject}: {reason}.",
        mend="Probe the node that serves the base URL.",
        look="Probe the node that serves the base URL, as the server's user or as root.",
    ),
    Entry(
        code="environment.chain.unknown",
        always=False,
        title="Link without a rule",
        checked="A link of the profile that this release has no rule for.",
        matters="What nobody judges is not proved.",
        measured="Not at all.",
        changes="A release that knows the link.",
        sentences={UNCLEAR: "Link {subject} of the profile: {reason}."},
        next_step={UNCLEAR: "Use the release that the profile was written for."},
    ),
    Entry(
        code="environment.driver.on_disk",
        always=False,
        title="Driver of the next boot",
        checked="That the driver module on disk is the one that is loaded.",
        matters="After an unattended upgrade the next reboot starts another system than the accepted one.",
        measured="modinfo's version against the loaded module.",
        changes="Loaded and installed driver being one release.",
        sentences={
            PASS: "{subject} will load driver {on_disk} again at its next boot.",
            FAIL: "{subject} runs driver {loaded}, and its next boot will load {on_disk}.",
            UNCLEAR: "Driver on disk of {subject}: {reason}.",
        },
        next_step={
            FAIL: "Reboot into the installed driver, or install the loaded one again and hold it; then run anew.",
            UNCLEAR: "Probe the host itself, where modinfo is.",
        },
    ),
    Entry(
        code="environment.nodes.probed",
        title="Every node probed",
        checked="That every node of the plan gave evidence that can be joined to the service.",
        matters="A node nobody looked at may be the one that differs.",
        measured="The probe of each node.",
        changes="A transport to every node.",
        sentences={PASS: "All {nodes} nodes gave their evidence.", UNCLEAR: "Not every node gave evidence: {reason}."},
        next_step={
            UNCLEAR: "Name every node in the plan with a transport that reaches it, or run the probe there by hand and "
            "give its document in a folder (via: file)."
        },
    ),
    Entry(
        code="environment.nodes.agree",
        title="Nodes agree",
        checked="Driver, GPUs, builds, mapped libraries, image, options and variables of the nodes against each other.",
        matters="vLLM demands one environment on all nodes; a difference shows as a hang or as wrong numbers.",
        measured="The probes of the nodes, compared exactly.",
        changes="Equal nodes.",
        sentences={
            PASS: "{nodes} nodes agree in all {compared} compared facts, where there is more than one.",
            FAIL: "Nodes differ: {different}.",
            UNCLEAR: "Nodes could not all be compared.",
        },
        next_step={FAIL: "Bring the nodes to one image, driver and launch.", UNCLEAR: "Probe every node."},
    ),
)  # fmt: skip

ENTRIES: tuple[Entry, ...] = (*CHAIN, *environment_launch.ENTRIES, *environment_more.ENTRIES)
