"""The page as a browser lays it out: the first viewport, the charts, and that nothing foreign runs."""

import itertools
from pathlib import Path

import pytest
from report_sample import dossier, entries, judgement
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from signoff.judge import catalogue
from signoff.report.files import render

pytestmark = pytest.mark.browser
SIZES = [(1440, 900), (390, 844)]
CONTRAST = Path(__file__).parent / "contrast.js"
VERDICTS = ["go", "limited", "rework", "scale", "incomplete"]


@pytest.fixture(autouse=True)
def sample_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in entries():
        monkeypatch.setitem(catalogue.CATALOGUE, entry.code, entry)


def show(
    chromium: Chrome, folder: Path, size: tuple[int, int] = (1440, 900), name: str = "rework", *,
    hostile: bool = False, lang: str = "en", scheme: str = "light",
) -> None:  # fmt: skip
    page = folder / f"{name}.html"
    page.write_bytes(render(dossier(hostile), judgement(name, hostile), "html", lang))
    shape = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    chromium.get_log("browser")
    chromium.get(page.as_uri())
    WebDriverWait(chromium, 30).until(
        lambda c: c.execute_script("return document.documentElement.classList.contains('drawn')")
    )


def complaints(chromium: Chrome) -> list[str]:
    return [line["message"] for line in chromium.get_log("browser") if line["level"] in ("WARNING", "SEVERE")]


@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
@pytest.mark.parametrize("name", VERDICTS)
def test_the_first_viewport_holds_the_verdict_and_what_to_do(
    chromium: Chrome, tmp_path: Path, size: tuple[int, int], name: str
) -> None:
    show(chromium, tmp_path, size, name)
    wanted = [".alarm", "#verdict", "#subject", "#first-reason", "#next-step"]
    wanted += ["#scope"] if name == "rework" else []
    wanted += ["#gates"] if size[0] > 1000 else []
    for selector in wanted:
        box = chromium.execute_script(
            "const r = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return [r.left, r.top, r.right, r.bottom, r.width * r.height]",
            selector,
        )
        assert box[4] > 0, f"{selector} is not shown"
        assert box[0] >= 0, selector
        assert box[1] >= 0, selector
        assert box[2] <= size[0], f"{selector} is cut at the side"
        assert box[3] <= size[1], f"{selector} ends at {box[3]}, below the first viewport"
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= size[0], (
        "the page scrolls sideways"
    )


def test_the_charts_are_drawn_with_one_time_axis_and_no_complaint(chromium: Chrome, tmp_path: Path) -> None:
    show(chromium, tmp_path)
    assert complaints(chromium) == []
    ranges = chromium.execute_script(
        "const ids = new Set(); const root = Bokeh.documents[0].roots()[0];"
        "for (const [f] of root.children) ids.add(f.x_range.id); return [root.children.length, ids.size]"
    )
    assert ranges == [5, 1], "stages, latency, requests, KV and preemptions share one range"
    painted = chromium.execute_script(
        "const found = []; const walk = n => { for (const e of n.querySelectorAll('*')) {"
        " if (e.tagName === 'CANVAS' && e.width > 500) found.push(e); if (e.shadowRoot) walk(e.shadowRoot); } };"
        "walk(document.getElementById('timeline'));"
        "return found.filter(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)).length"
    )
    assert painted >= 5
    assert chromium.execute_script("return getComputedStyle(document.querySelector('.still')).display") == "none"


def test_zooming_one_pane_moves_all(chromium: Chrome, tmp_path: Path) -> None:
    show(chromium, tmp_path)
    ends = chromium.execute_script(
        "const fs = Bokeh.documents[0].roots()[0].children.map(c => c[0]); fs[1].x_range.start += 20000;"
        "return fs.map(f => f.x_range.start)"
    )
    assert len(set(ends)) == 1


def test_foreign_scripts_do_not_run_and_their_text_is_shown(chromium: Chrome, tmp_path: Path) -> None:
    show(chromium, tmp_path, hostile=True)
    assert complaints(chromium) == []
    assert chromium.execute_script("return document.querySelectorAll('script').length") == 3
    assert "<script>alert(" in chromium.execute_script("return document.getElementById('subject').textContent")


def test_the_policy_stops_a_script_that_would_slip_in(chromium: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "slipped.html"
    text = render(dossier(), judgement(), "html").decode()
    page.write_text(text.replace("<main", "<script>document.title = 'owned'</script><main", 1))
    chromium.get(page.as_uri())
    assert chromium.title != "owned"
    assert any("Content Security Policy" in line for line in complaints(chromium))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_aa(chromium: Chrome, tmp_path: Path, scheme: str) -> None:
    for name in VERDICTS:
        show(chromium, tmp_path, name=name, scheme=scheme)
        assert chromium.execute_script(CONTRAST.read_text()) == []


def test_headings_step_by_one_and_tables_have_captions(chromium: Chrome, tmp_path: Path) -> None:
    show(chromium, tmp_path)
    levels = chromium.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert chromium.execute_script("return [...document.querySelectorAll('table')].every(t => t.caption)")
    assert chromium.execute_script("return [...document.querySelectorAll('tbody tr')].every(r => r.cells[0].scope)")


def test_without_scripts_the_still_picture_stands_there(chromium: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "still.html"
    text = render(dossier(), judgement(), "html").decode()
    page.write_text(text.split('<script type="application/json"')[0] + "</body></html>")
    chromium.get(page.as_uri())
    box = chromium.execute_script(
        "const r = document.querySelector('.still svg').getBoundingClientRect(); return [r.width, r.height]"
    )
    assert box[0] > 900
    assert box[1] > 300
