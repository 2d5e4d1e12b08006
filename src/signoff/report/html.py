"""The report as one HTML file: no network, no eval, every foreign string escaped.

Its policy allows exactly the scripts that stand in it, by their digests, so markup that slipped through could not run.
"""

import base64
import hashlib

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from signoff.report.charts import embedding, scripts
from signoff.report.svg import picture
from signoff.report.view import View

_PAGES = Environment(
    loader=PackageLoader("signoff.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
MARKS = {"pass": "✓", "fail": "✕", "inconclusive": "?", "not_run": "–", "not_applicable": "∅", "warn": "!"}


def html(view: View) -> str:
    """The whole page as text. Without a time axis to draw it holds no script at all."""
    drawn = not view.timeline.empty
    code = (*scripts(), _source("draw.js")) if drawn else ()
    return _PAGES.get_template("report.html.j2").render(
        v=view,
        w=view.words,
        marks=MARKS,
        style=Markup(_source("style.css")),
        policy=policy(code),
        scripts=[Markup(text) for text in code],
        chart=Markup(embedding(view.timeline, view.words)) if drawn else "",
        still=picture(view.timeline, view.words) if drawn else "",
    )


def policy(code: tuple[str, ...]) -> str:
    """The content security policy of a page that holds just these scripts."""
    allowed = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in code)
    return (
        f"default-src 'none'; script-src {allowed or chr(39) + 'none' + chr(39)}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _source(name: str) -> str:
    """A text of the templates folder as it is."""
    assert _PAGES.loader is not None
    return _PAGES.loader.get_source(_PAGES, name)[0].strip()
