"""The report as one HTML file: no network, no eval, every foreign string escaped."""

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from signoff.report.view import View

_PAGES = Environment(
    loader=PackageLoader("signoff.report", "templates"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def html(view: View) -> str:
    """The whole page as text."""
    return _PAGES.get_template("report.html.j2").render(v=view, w=view.words)
