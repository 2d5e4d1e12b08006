"""The capacity gate: findings over a dossier."""

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.judge.capacity import answers, concurrency, load, long_input, memory, service, soak
from signoff.judge.capacity.stages import see


def findings(dossier: Dossier) -> list[Finding]:
    """Every finding of this gate; each check yields exactly one, also when its stage was not run."""
    seen = see(dossier)
    return [
        *load.findings(seen),
        *long_input.findings(seen),
        *concurrency.findings(seen),
        *answers.findings(seen),
        *soak.findings(seen),
        *memory.findings(seen),
        *service.findings(seen),
    ]
