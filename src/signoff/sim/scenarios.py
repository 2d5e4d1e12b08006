"""The scenarios of the demo: a list of faults each, and nothing else."""

SCENARIOS: dict[str, tuple[str, ...]] = {
    "go": (),
    "limited": ("prefix-silent-off",),
    "rework": ("env-driver-570",),
    "scale": ("conc-kv-small",),
    "incomplete": ("env-driver-unreadable",),
}
