"""Rules for what the environment breaks: driver, CUDA, container, collectives, network, host, hardware."""

from signoff.core.words import Cause, Phase
from signoff.read.launch_log_rule import Rule, envelope, failure

_ENV, _HW, _SOAK, _LOAD = Cause.ENVIRONMENT, Cause.HARDWARE, Cause.SUSTAINED, Phase.LOAD

CUDA: tuple[Rule, ...] = (
    failure(
        "driver_too_old",
        r"NVIDIA driver on your system is too old(?: \(found version (?P<found>\d+)\))?",
        _ENV,
        "PyTorch was built for a newer CUDA than the loaded driver offers; the number is the driver's CUDA level.",
        _LOAD,
    ),
    failure(
        "driver_insufficient",
        r"CUDA driver version is insufficient for CUDA runtime version|CUDA[_ ]ERROR[_ ]INSUFFICIENT[_ ]DRIVER|"
        r"cudaErrorInsufficientDriver|CUDA error (?:code )?35\b|Error 35:",
        _ENV,
        "The loaded driver is older than the CUDA runtime of the image needs (error 35).",
        _LOAD,
    ),
    failure(
        "driver_mismatch_803",
        r"[Ee]rror (?:code )?803\b|unsupported display driver ?/ ?cuda driver combination|cudaErrorSystemDriverMismatch"
        r"|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        _ENV,
        "libcuda as seen in the container does not pair with the loaded kernel module (error 803).",
        _LOAD,
    ),
    failure(
        "forward_compat_804",
        r"[Ee]rror (?:code )?804\b|forward compatibility was attempted on non[ -]supported HW|"
        r"cudaErrorCompatNotSupportedOnDevice",
        _ENV,
        "The image brought its own, newer libcuda, and this GPU class may not use forward compatibility (error 804).",
        _LOAD,
    ),
    failure(
        "fabric_802",
        r"[Ee]rror (?:code )?802\b|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|"
        r"CUDA error: system not yet initialized|: system not yet initialized",
        _ENV,
        "The NVSwitch fabric is not up: Fabric Manager (and NVLSM on Blackwell) has not registered the GPUs (802).",
        _LOAD,
    ),
    failure(
        "unsupported_ptx",
        r"provided PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion|"
        r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION|Unsupported \.version \d",
        _ENV,
        "Code was compiled by a newer toolkit than the driver's compiler understands (error 222).",
    ),
    failure(
        "needs_newer_driver",
        r"call requires (?:a )?newer driver|cudaErrorCallRequiresNewerDriver",
        _ENV,
        "A CUDA call that the loaded driver does not have (error 36).",
    ),
    failure(
        "no_kernel_image",
        r"no kernel image is available for execution on the device|cudaErrorNoKernelImageForDevice|"
        r"CUDA_ERROR_NO_BINARY_FOR_GPU|sm_\d+\w* is not compatible with the current PyTorch|"
        r"PTX assembly aborted due to errors|ptxas fatal *: Value '?sm_|"
        r"not (?:compiled|built) for (?:this GPU|sm_?\d+)",
        _ENV,
        "The image holds no code for this GPU's compute capability.",
    ),
    failure(
        "arch_unsupported",
        r"(?:requires?|only supports?|supported only on|need) (?:a )?(?:GPUs? with )?(?:compute |CUDA )?capability|"
        r"compute capability \d+\.\d+ is (?:not supported|too low)|not supported on (?:this )?(?:GPU )?"
        r"(?:architecture|compute capability|SM ?\d+)|No (?:valid|supported) attention backend found",
        _ENV,
        "A kernel or backend of this build does not exist for this GPU.",
    ),
    failure(
        "no_gpu_seen",
        r"No CUDA GPUs are available|no CUDA-capable device is detected|Found no NVIDIA driver on your system|"
        r"Failed to infer device type|Torch not compiled with CUDA enabled|CUDA unknown error|"
        r"NVML library not found|libnvidia-ml\.so(?:\.1)?: cannot open|NVML Shared Library Not Found|"
        r"invalid device ordinal|No HIP GPUs are available",
        _ENV,
        "The process sees no usable GPU: driver libraries not injected, devices not passed, or a CPU build.",
        _LOAD,
    ),
    failure(
        "nvml_mismatch",
        r"Driver/library version mismatch|NVRM: API mismatch|RmInitAdapter failed",
        _ENV,
        "The user-space driver libraries and the loaded kernel module are of different versions: reload or reboot.",
        _LOAD,
    ),
    failure(
        "nvml_broken",
        r"Failed to initialize NVML(?:: .*)?",
        _ENV,
        "NVML could not be reached: device nodes or cgroup rights are gone, or the driver is not loaded.",
    ),
    failure(
        "library_missing",
        r"(?P<library>lib(?:cudart|cublas\w*|cudnn\w*|nccl|nvrtc|cusparse\w*|cufft|curand|cusolver|nvJitLink|cupti|cuda|"
        r"nvshmem\w*|torch\w*|c10\w*|mpi\w*)[\w.-]*\.so[.\d]*): cannot open shared object file",
        _ENV,
        "A package was built for another CUDA release than the one installed beside it.",
        _LOAD,
    ),
    failure(
        "abi_mismatch",
        r"undefined symbol: ?\S*|version [`']?(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+'? not found|"
        r"Failed to import from vllm\._(?:\w*C\w*|moe\w*)|DLL load failed|symbol lookup error|"
        r"was compiled against .* but the (?:current|installed)|"
        r"PyTorch has CUDA Version=\S+ and \w+ has CUDA Version=|module compiled against API version",
        _ENV,
        "Compiled parts of the environment do not belong together (built against another PyTorch, CUDA or C library).",
        _LOAD,
    ),
    failure(
        "package_mismatch",
        r"flashinfer-cubin version \([^)]*\) does not match|flashinfer(?:-jit-cache| version)[^\n]*does not match|"
        r"FlashInfer requires? (?:CUDA|GPUs)|nvcc (?:fatal|not found)|Could not find nvcc|"
        r"CUDA_HOME environment variable is not set|detected CUDA version \([^)]*\) mismatches",
        _ENV,
        "Packages of the image that must be of one release are not, or a compiler the build needs is missing.",
    ),
    failure(
        "container_requirement",
        r"unsatisfied condition: cuda ?>=? ?(?P<needs>[\d.]+)|nvidia-container-cli: requirement error|"
        r"requirement error: unsatisfied",
        _ENV,
        "The container runtime refused to start the image: the host driver is below what the image demands.",
        _LOAD,
    ),
    failure(
        "container_runtime",
        r"nvidia-container-cli:[^\n]*|could not select device driver|failed to create (?:shim|containerd) task|"
        r"unresolvable CDI devices?|failed to inject CDI devices|unknown runtime specified nvidia|"
        r"Unknown runtime (?:name:? )?\"?nvidia|exec format error|auto-detected mode as ['\"]?legacy",
        _ENV,
        "The container runtime could not hand the GPUs to the container.",
        _LOAD,
    ),
)

COLLECTIVES: tuple[Rule, ...] = (
    failure(
        "nccl_shm_full",
        r"(?:creating|extend|allocat\w*|attach\w*)[^\n]*shared memory segment[^\n]*No space left on device|"
        r"/dev/shm[^\n]*(?:No space left|ENOSPC)|No space left on device[^\n]*/dev/shm|"
        r"posix_fallocate failed[^\n]*No space|unable to (?:allocate|write|mmap|resize)[^\n]*(?:shared memory|shm)",
        _ENV,
        "/dev/shm is full: too small for the container, or filled by segments that earlier crashes left behind.",
    ),
    failure(
        "nccl_shm",
        r"[Ee]rror while (?:creating|attaching to) shared memory segment|insufficient shared memory \(shm\)|"
        r"Bus error[^\n]*(?:shm|shared)|DataLoader worker[^\n]*killed by signal: Bus error",
        _ENV,
        "NCCL or PyTorch could not create its segment in /dev/shm: the container's shared memory is too small.",
    ),
    failure(
        "nccl_nvls",
        r"nvls\.cc:\d+[^\n]*(?:NCCL WARN|Cuda failure|failed)|cuMulticast\w+[^\n]*fail\w*|"
        r"NVLS[^\n]*(?:failed|Cuda failure)|[Mm]ulticast[^\n]*(?:bind|create)[^\n]*fail",
        _ENV,
        "NVLink multicast memory could not be set up: the fabric state of the host is bad.",
    ),
    failure(
        "nccl_version",
        r"Failed to load NCCL library from|NCCL library not found|ncclInvalidUsage[^\n]*version|"
        r"mismatched? NCCL version|NCCL version mismatch",
        _ENV,
        "The NCCL library could not be loaded or differs between ranks.",
        _LOAD,
    ),
    failure(
        "nccl_network",
        r"(?:ibv_\w+|mlx5dv_\w+|Call to (?:ibv|connect|bind|socket|mlx5dv)\w*)[^\n]*(?:failed|errno|error)|"
        r"NET/(?:IB|Socket|OFI)[^\n]*(?:failed|[Ee]rror|timed out|[Uu]nable|No (?:device|interface))|"
        r"NCCL WARN[^\n]*(?:[Cc]onnection (?:refused|reset|closed)|timed? ?out|No route to host|"
        r"Bootstrap *: *no socket interface|socket\w* (?:interface|error))|socketStartConnect|"
        r"socketProgress[^\n]*(?:closed|refused|reset)|Bootstrap : no socket interface found",
        _ENV,
        "NCCL could not reach another rank over the network it chose.",
    ),
    failure(
        "gloo_mesh",
        r"connectFullMesh failed|Gloo[^\n]*(?:Connection refused|timed out connecting|no route to host)|"
        r"makeDeviceFor\w+\(\)[^\n]*failed|Unable to find (?:address|interface) for: ?\S+",
        _ENV,
        "Ranks could not connect to each other: the interface that was chosen is not reachable from the other node.",
        _LOAD,
    ),
    failure(
        "rendezvous",
        r"DistNetworkError|DistStoreError|(?:client|server) socket has (?:timed out|failed to)[^\n]*|"
        r"RendezvousConnectionError|Timed out (?:after \d+ seconds )?waiting for clients|"
        r"store->get\([^)]*\)[^\n]*(?:timeout|reset)|Placement group creation timed out|"
        r"The head node[^\n]*(?:unreachable|not reachable)|GCS[^\n]*(?:failed to connect|timed out)",
        _ENV,
        "The ranks did not all come together: address, port, firewall or a node that never started.",
        _LOAD,
    ),
    failure(
        "nccl_peer",
        r"peer access is not supported between these two devices|p2p[^\n]*(?:hang|Cuda failure)|"
        r"NCCL WARN[^\n]*(?:P2P|IPC)[^\n]*(?:fail|Cuda failure)|cudaIpc(?:Open|Get)MemHandle[^\n]*(?:fail|error)|"
        r"cuMem(?:Import|Export|Map)\w*[^\n]*(?:fail|Cuda failure)|"
        r"NCCL WARN Cuda failure[^\n]*|IMEX[^\n]*(?:not|fail|unavailable|mismatch)|"
        r"nvidia-caps-imex-channels[^\n]*|fabric\w*[^\n]*handle[^\n]*(?:fail|not supported)",
        _ENV,
        "GPUs could not map each other's memory: peer access, IOMMU/ACS, fabric or IMEX state.",
    ),
    failure(
        "nccl_watchdog",
        r"Watchdog caught collective operation timeout|NCCL watchdog thread terminated|"
        r"\[(?:PG|Rank)[^\n]*Timeout at NCCL work|collective operation timeout",
        _SOAK,
        "A collective never finished: one rank hangs or is gone while the others wait.",
    ),
    failure(
        "nccl_warn_other",
        r"NCCL WARN (?P<said>[^\n]+)",
        _ENV,
        "NCCL reported trouble that no rule here explains in detail.",
    ),
    envelope(
        "nccl_unhandled",
        r"NCCL error[^\n]*unhandled (?:system|cuda) error|ncclSystemError|ncclUnhandledCudaError|ncclInternalError|"
        r"ncclRemoteError|ncclInvalidUsage|DistBackendError",
        "A collective call failed; the NCCL warning before it names the cause.",
        _ENV,
    ),
)

HOST: tuple[Rule, ...] = (
    failure(
        "module_missing",
        r"ModuleNotFoundError: No module named|ImportError: (?:cannot import name|No module)|"
        r"PackageNotFoundError|DistributionNotFound|VersionConflict",
        _ENV,
        "A Python package is missing from the image or of a release that does not fit.",
        _LOAD,
    ),
    failure(
        "host_allocation",
        r"Cannot allocate memory|std::bad_alloc|\[Errno 12\]",
        _SOAK,
        "The process could not get host memory: the limit of the cgroup or of the machine is reached.",
    ),
    failure(
        "port_in_use",
        r"[Aa]ddress already in use|port \d+ is (?:already )?(?:used|in use)",
        _ENV,
        "Another process holds the port: an earlier server still runs.",
        _LOAD,
    ),
    failure(
        "disk_full",
        r"No space left on device|OSError: \[Errno 28\]",
        _ENV,
        "A file system of the node is full (model cache, compile cache or temporary files).",
    ),
    failure(
        "files_limit",
        r"Too many open files|\[Errno 24\]",
        _SOAK,
        "The process ran out of file descriptors.",
    ),
    failure(
        "permission",
        r"PermissionError: \[Errno 13\]|Operation not permitted[^\n]*(?:nvidia|shm|cgroup)",
        _ENV,
        "The process may not use a path or device it needs.",
        _LOAD,
    ),
    failure(
        "probe_failed",
        r"(?:Liveness|Startup) probe failed|failed (?:liveness|startup) probe|Back-off restarting failed container",
        _ENV,
        "The platform killed the server because a probe failed: its time limit is shorter than loading takes.",
        _LOAD,
    ),
    failure(
        "shm_small",
        r"(?:shm|tmpfs) +\S+ +\S+ +\S+ +(?:9[5-9]|100)% +/dev/shm",
        _ENV,
        "/dev/shm is full.",
    ),
    failure(
        "thread_limit",
        r"can't start new thread|pthread_create failed|Resource temporarily unavailable[^\n]*(?:thread|fork)",
        _ENV,
        "The process or cgroup limit on threads is reached.",
    ),
)

HARDWARE: tuple[Rule, ...] = (
    failure(
        "xid_memory",
        r"Xid \((?:PCI:)?(?P<gpu>[^)]*)\): (?P<xid>48|63|64|92|94|95|171|172)\b",
        _HW,
        "Uncorrectable memory errors on one GPU (Xid 48, 63, 64, 92, 94, 95): drain, reset or replace it.",
    ),
    failure(
        "xid_link",
        r"Xid \((?:PCI:)?(?P<gpu>[^)]*)\): (?P<xid>74|144|145|146|147|148|149|150|155|156)\b|SXid",
        _HW,
        "NVLink or NVSwitch errors.",
    ),
    failure(
        "xid_gone",
        r"Xid \((?:PCI:)?(?P<gpu>[^)]*)\): (?P<xid>79|119|120|62|61|38|56|110|140|143)\b|GPU has fallen off the bus|"
        r"GPU is lost|Unable to determine the device handle for GPU",
        _HW,
        "A GPU stopped answering (fell off the bus, or its firmware processor timed out).",
    ),
    failure(
        "xid_recovery",
        r"Xid \((?:PCI:)?(?P<gpu>[^)]*)\): (?P<xid>154)\b",
        _HW,
        "The driver now demands a recovery action for this GPU.",
    ),
    failure(
        "xid_software",
        r"Xid \((?:PCI:)?(?P<gpu>[^)]*)\): (?P<xid>13|31|32|43|45|68|69|109)\b",
        _SOAK,
        "A kernel of the application faulted on the GPU (Xid 13, 31, 43, 45, 109): usually software.",
    ),
    failure(
        "xid_other",
        r"Xid \((?:PCI:)?(?P<gpu>[^)]*)\): (?P<xid>\d+)",
        _HW,
        "The driver logged a GPU error event.",
    ),
    failure(
        "uncorrectable_ecc",
        r"uncorrectable ECC error|CUDA error: uncorrectable|cudaErrorECCUncorrectable|double bit error|"
        r"row remapping? (?:failure|failed)|hardware error: .*GPU",
        _HW,
        "A GPU's memory returned an uncorrectable error.",
    ),
)
