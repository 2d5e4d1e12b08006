"""Writes what is made from the catalogue and the sample: `docs/findings.md` and the golden reports."""

from pathlib import Path

from report_sample import dossier, entries, judgement

from signoff.judge import catalogue
from signoff.report.explain import findings_page
from signoff.report.files import render

HERE = Path(__file__).parent


def main() -> None:
    (HERE.parents[1] / "docs" / "findings.md").write_text(findings_page())
    for entry in entries():
        catalogue.CATALOGUE[entry.code] = entry  # type: ignore[index]
    for name in ("rework", "limited"):
        for form in ("md", "json", "junit", "openmetrics"):
            (HERE / "golden" / f"{name}.{form}").write_bytes(render(dossier(), judgement(name), form))


if __name__ == "__main__":
    main()
