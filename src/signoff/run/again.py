"""Again: a folder in, judged out. The one road for run, judge, report and every other reader of a bundle."""

from pathlib import Path

from signoff.bundle.metrics import read_metrics
from signoff.bundle.reading import blobs, read_all_records, read_events, read_evidence, read_profile
from signoff.bundle.seal import evidence_digest, is_signed, seal
from signoff.core.codec import digest, to_pretty_json
from signoff.core.dossier import Dossier
from signoff.core.plan_text import parse_plan
from signoff.errors import REFUSED, SignoffError
from signoff.judge.judgement import Judgement, judge


def read_dossier(folder: Path) -> Dossier:
    """All that the bundle holds."""
    path = folder / "plan.yaml"
    try:
        plan_text = path.read_bytes()
    except OSError as error:
        raise SignoffError(f"{path}: cannot read: {error.strerror}", "Give the folder that a run left.") from None
    return Dossier(
        plan=parse_plan(plan_text.decode("utf-8", "replace"), str(path)),
        profile=read_profile(folder),
        evidence=read_evidence(folder),
        records=read_all_records(folder),
        metrics=read_metrics(folder / "metrics"),
        events=read_events(folder),
        blob=blobs(folder),
        plan_digest=digest(plan_text),
        evidence_digest=evidence_digest(folder),
    )


def judge_folder(folder: Path) -> tuple[Dossier, Judgement]:
    """The bundle judged, nothing written."""
    dossier = read_dossier(folder)
    return dossier, judge(dossier)


def results(judgement: Judgement) -> dict[str, bytes]:
    """The files that hold a judgement, by name."""
    return {
        "findings.json": to_pretty_json(judgement.as_findings_file()),
        "verdict.json": to_pretty_json(judgement.verdict),
    }


def differing(folder: Path, judgement: Judgement) -> list[str]:
    """Which sealed result files say something else than this judgement; files that are not there do not differ."""
    return [
        name
        for name, raw in results(judgement).items()
        if (folder / name).exists() and (folder / name).read_bytes() != raw
    ]


def write_results(folder: Path, judgement: Judgement, reports: dict[str, bytes]) -> str:
    """Write verdict, findings and reports and seal; returns the bundle's digest. Refused once somebody signed."""
    if is_signed(folder):
        raise SignoffError(f"{folder}: is signed; nothing in it changes", "Judge a copy without signatures.", REFUSED)
    for name, raw in (results(judgement) | reports).items():
        (folder / name).write_bytes(raw)
    return seal(folder)
