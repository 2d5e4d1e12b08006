"""Reports as files: which formats there are, and a judged bundle as the bytes of one."""

from collections.abc import Callable, Mapping

from signoff.core.dossier import Dossier
from signoff.judge.judgement import Judgement
from signoff.report.html import html
from signoff.report.json_text import json_text
from signoff.report.junit import junit
from signoff.report.markdown import markdown
from signoff.report.openmetrics import openmetrics
from signoff.report.view import View, view
from signoff.report.words import TABLES

RENDERERS: Mapping[str, Callable[[View], str]] = {
    "html": html,
    "md": markdown,
    "json": json_text,
    "junit": junit,
    "openmetrics": openmetrics,
}
FORMATS = tuple(RENDERERS)
LANGUAGES = tuple(TABLES)
BUNDLE_FILES = {"report.html": "html", "report.md": "md", "junit.xml": "junit"}
"""The reports that every bundle holds, by file name."""


def render(dossier: Dossier, judgement: Judgement, form: str = "html", lang: str = "en") -> bytes:
    """One report as UTF-8 bytes; `form` is one of FORMATS, `lang` one of LANGUAGES."""
    return _bytes(RENDERERS[form](view(dossier, judgement, lang)))


def render_all(dossier: Dossier, judgement: Judgement) -> dict[str, bytes]:
    """The reports that every bundle holds: file name to bytes. The same judgement gives the same bytes."""
    seen = view(dossier, judgement)
    return {name: _bytes(RENDERERS[form](seen)) for name, form in BUNDLE_FILES.items()}


def _bytes(text: str) -> bytes:
    """UTF-8; a lone surrogate that some server sent becomes `?`."""
    return text.encode("utf-8", "replace")
