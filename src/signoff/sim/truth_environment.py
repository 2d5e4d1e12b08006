"""Rulings over the faults of the host, image and launch."""

from signoff.core.words import Cause, Scope, VerdictName
from signoff.sim.truth_ruling import Ruling

_REWORK, _INCOMPLETE, _LIMITED = VerdictName.REWORK, VerdictName.INCOMPLETE, VerdictName.LIMITED


def _chain(why: str, *also: VerdictName) -> Ruling:
    """A link of the compatibility chain is proved wrong."""
    return Ruling(row=1, verdict=_REWORK, scope=Scope.ENVIRONMENT, cause=Cause.ENVIRONMENT, why=why, also=also)


def _launch(why: str, *also: VerdictName, cause: Cause = Cause.ENVIRONMENT) -> Ruling:
    return Ruling(row=1, verdict=_REWORK, scope=Scope.LAUNCH, cause=cause, why=why, also=also)


def _broken(why: str, *also: VerdictName, cause: Cause = Cause.HARDWARE) -> Ruling:
    """Host, weights or a GPU in use are broken."""
    return Ruling(row=1, verdict=_REWORK, scope=Scope.HARDWARE, cause=cause, why=why, also=also)


def _unproved(why: str) -> Ruling:
    return Ruling(row=4, verdict=_INCOMPLETE, cause=Cause.ENVIRONMENT, why=why)


def _shown(why: str) -> Ruling:
    """A passing finding with a warning: listed, and the signer must acknowledge it."""
    return Ruling(row=8, verdict=VerdictName.GO, cause=Cause.NONE, why=why, also=(_LIMITED, _REWORK))


ENVIRONMENT: dict[str, Ruling] = {
    "env-driver-570": _chain("R570 is older than R580, whatever the compat library says"),
    "env-driver-unreadable": _unproved("no source tells the loaded driver"),
    "env-driver-mismatch": _chain("libcuda and kernel module are of different releases"),
    "env-stale-compat": _chain("an older libcuda of the image shadows the host's"),
    "env-needless-compat": _shown("a compat library is used though the driver needs none"),
    "env-loaded-not-on-disk": _chain("the next boot is another system than the accepted one", _LIMITED),
    "env-cuda12-wheel": _chain("the build is for CUDA 12.9, not 13"),
    "env-two-nccl": _chain("workers do not share one NCCL", _INCOMPLETE),
    "env-image-other": _chain("another image than the recipe's"),
    "env-no-digest": _unproved("a tag without digest does not say which image runs"),
    "env-vllm-other": _chain("vLLM is older than the recipe's least version"),
    "env-flag-missing": _launch("options of the recipe are missing"),
    "env-flag-contradicts": _launch("options contradict the recipe"),
    "env-caching-off": _launch("the launch turns prefix caching off", cause=Cause.PREFIX_CACHE),
    "env-no-parser": _launch("no tool-call parser", cause=Cause.MODEL_PARSER),
    "env-recipe-env-missing": _launch("the recipe's variables are not set"),
    "env-compat-switch": _launch("the compatibility switch must be off on R580 and newer"),
    "env-fabric-down": _broken("the NVSwitch fabric never completed"),
    "env-foreign-gpu-process": _broken("a foreign process holds memory of a GPU in use"),
    "env-gpu-missing": _broken("seven GPUs cannot carry a layout of eight", VerdictName.SCALE, _INCOMPLETE),
    "env-gpu-ecc": _broken("a GPU in use counts uncorrectable errors"),
    "env-gpu-other": Ruling(
        row=5,
        verdict=VerdictName.SCALE,
        also=(_REWORK,),
        cause=Cause.TOPOLOGY,
        why="eight B200 cannot hold the weights and one request of the window",
    ),
    "env-dev-mode": _shown("development endpoints are reachable"),
    "env-remote-code": _shown("remote code at no pinned revision"),
    "env-xid": _broken("Xid 79 in this boot: a GPU fell off the bus"),
    "env-oom-kill": Ruling(
        row=6,
        verdict=_INCOMPLETE,
        also=(_REWORK,),
        cause=Cause.SUSTAINED,
        why="a worker was killed for host memory in this boot, and nobody located why",
    ),
    "env-shm-small": _broken("/dev/shm is too small for the ranks", cause=Cause.ENVIRONMENT),
}
