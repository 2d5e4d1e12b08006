"""The environment gate: findings over a dossier."""

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding


def findings(dossier: Dossier) -> list[Finding]:
    """Every finding of this gate; each check yields exactly one, also when its stage was not run."""
    raise NotImplementedError
