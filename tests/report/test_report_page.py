"""The page of a run in a real browser: no errors, nothing fetched, filters, narrow, dark, legible,
by keyboard alone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consistency.report import page
from tests.support.browser import Browser, browser, program
from tests.support.example_bundles import HOSTILE, result, stored_run

OF_THE_PAGE = ("data:", "about:", "file:")
SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
# The lowest contrast of any text with what lies behind it, and the text. Colors of pictures count
# as behind what they hold.
CONTRAST = """(() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parse = (c) => { const n = c.match(/[\\d.]+/g).map(Number);
    return n.length < 4 ? [...n, 1] : n; };
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (node) => { for (; node; node = node.parentElement) {
    const c = parse(getComputedStyle(node).backgroundColor); if (c[3] > 0.99) return c; }
    return [255, 255, 255, 1]; };
  let worst = [99, ""], many = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim(), node = walk.currentNode.parentElement;
    if (!text || !node.checkVisibility()) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(node.tagName)) continue;
    const style = getComputedStyle(node), drawn = node.namespaceURI.endsWith("svg");
    const [a, b] = [luminance(parse(drawn ? style.fill : style.color)), luminance(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    many++;
    if (ratio < worst[0]) worst = [ratio, text.slice(0, 60)];
  }
  return { worst: worst[0], text: worst[1], many };
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    page.write(stored_run(folder / "run"), folder / "run.html")
    page.write(stored_run(folder / "hostile", HOSTILE), folder / "hostile.html")
    return folder


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def pictures(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where screenshots are kept: build/pictures, which CI uploads."""
    folder = Path(request.config.rootpath) / "build" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def texts(window: Browser, selector: str) -> list[str]:
    found: list[str] = window.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(n => n.textContent.trim())"
    )
    return found


def operators(window: Browser) -> list[str]:
    found: list[str] = window.run(
        "[...document.querySelectorAll('.row .title')].map(n => n.firstChild.data)"
    )
    return found


def choose(window: Browser, name: str, value: str) -> None:
    window.run(f"""(() => {{
        const field = document.getElementById('filters').elements[{json.dumps(name)}];
        field.value = {json.dumps(value)};
        field.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()""")


def fits(window: Browser) -> bool:
    return bool(window.run("document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize(
    ("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)]
)
def test_it_looks_right(
    pages: Path, window: Browser, pictures: Path, width: int, dark: bool
) -> None:
    """With an operator open: no complaint, nothing fetched, no horizontal scrolling, every text
    legible."""
    window.show(pages / "run.html", "#op=matmul", width=width, dark=dark)
    window.run(SETTLED)
    assert window.problems == []
    assert [address for address in window.fetched if not address.startswith(OF_THE_PAGE)] == []
    assert fits(window)
    told: dict[str, Any] = window.run(CONTRAST)
    assert told["many"] > 100
    assert told["worst"] >= 4.5, told
    ground = window.run("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") != dark
    window.picture(pictures / f"report-{width}-{'dark' if dark else 'light'}.png", whole=True)


def test_what_is_shown(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html")
    assert texts(window, "h1") == ["2 operators fail: the worst is exp on mine"]
    assert texts(window, ".first b") == ["exp"], "the worst failure in full"
    assert texts(window, ".first pre")[0].startswith("consistency repro ")
    assert texts(window, ".worst b") == ["matmul"]
    assert operators(window) == ["exp", "matmul", "tan", "sum"]
    assert texts(window, "#count") == ["4 operators, 62 results"]
    assert texts(window, ".map .head") == ["cpu", "numpy", "mine"]
    squares: list[str] = window.run("[...document.querySelectorAll('.cell')].map(n => n.ariaLabel)")
    assert len(squares) == 12
    assert "matmul on mine: 1,400 × budget, divergent (float32 forward), 8 results" in squares
    assert "5.2" in texts(window, "td")


def test_an_operator_opens_by_its_address_and_by_a_click(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html", "#op=matmul")
    assert texts(window, ".panel:not([hidden]) h4") == [
        "Error in ulp against n, the numbers accumulated", "Cases by their largest error, in ulp",
        "float32 error ÷ float64 error",
        "Worst cases", "By dtype and direction",
    ]  # fmt: skip
    assert window.run("document.querySelectorAll('.panel circle').length") > 10
    assert window.run("document.querySelectorAll('.panel .cross').length") == 3
    labels: list[str] = window.run(
        "[...document.querySelectorAll('.panel svg')].map(n => n.getAttribute('aria-label'))"
    )
    assert len(labels) == 5, "errors, three histograms, scaling"
    assert texts(window, ".panel .strong").count("budget") == 1
    assert {"½√n", "½n", "2²⁹: rounding"} <= set(texts(window, ".panel text"))
    case = texts(window, ".panel .case")[0]
    assert "TF32 inputs explain 99%" in case
    assert "float32 inputs" in case
    assert "consistency repro" in case
    assert re.search(r"failures/matmul-\S+-mine-forward: repro.py, issue.md", case)
    assert "TF32 inputs explain 99%" in texts(window, ".why")[1]
    window.run("document.querySelectorAll('.row button')[1].click()")
    assert texts(window, ".panel:not([hidden])") == []
    assert window.run("location.hash") in ("", "#")
    window.run("document.querySelector('.row button').click()")
    assert window.run("location.hash") == "#op=exp"


def test_the_command_can_be_copied_and_is_quoted(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html", "#op=tan")
    window.send(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    command = texts(window, ".panel .told-again pre")[0]
    recipe = texts(window, ".panel .case details pre")[0]
    assert command.startswith("consistency repro '{")
    assert recipe in command
    window.run("document.querySelector('.copy').click()")
    window.run("new Promise(done => setTimeout(done, 200))")
    assert texts(window, ".copy")[0] == "Copied"
    assert window.run("navigator.clipboard.readText()") == command


def test_filters_narrow_everything_and_stand_in_the_address(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html")
    for name, value, left in (
        ("family", "matmul", ["matmul"]), ("family", "", ["exp", "matmul", "tan", "sum"]),
        ("verdict", "failed", ["exp", "matmul"]),
        ("verdict", "special-values", ["exp"]), ("verdict", "", ["exp", "matmul", "tan", "sum"]),
        ("q", "A", ["matmul", "tan"]),
        ("dtype", "float64", ["matmul"]), ("q", "", ["matmul", "sum"]),
    ):  # fmt: skip
        choose(window, name, value)
        assert operators(window) == left, (name, value)
    assert window.run("location.hash") == "#dtype=float64"
    choose(window, "backend", "numpy")
    assert texts(window, ".map .head") == ["numpy"]
    window.show(pages / "run.html", "#dtype=float64&backend=numpy&verdict=nonsense")
    assert operators(window) == ["sum"], (
        "an address gives the same view; what it cannot mean is passed over"
    )
    choose(window, "q", "no such operator")
    assert texts(window, "#count") == ["Nothing matches these filters."]
    window.run("document.querySelector('#filters button').click()")
    assert len(operators(window)) == 4
    window.run("document.querySelector('#chips button').click()")
    assert window.run("location.hash") == "#verdict=divergent"
    assert operators(window) == ["matmul"]
    assert window.problems == []


def test_by_keyboard_alone(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html")
    focused = "document.activeElement.outerHTML.slice(0, 60)"
    seen = []
    for _ in range(40):
        window.press("Tab")
        seen.append(window.run(focused))
        ring = window.run("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none" or "skip" in seen[-1], seen[-1]
        if 'class="cell' in seen[-1]:
            break
    assert 'class="skip"' in seen[0]
    assert any("worst" in s or "#op=" in s for s in seen)
    assert any('name="verdict"' in s for s in seen)
    assert 'class="cell' in seen[-1], seen
    first = window.run("document.activeElement.ariaLabel")
    assert texts(window, "#told") == [first]
    window.press("ArrowRight")
    second = window.run("document.activeElement.ariaLabel")
    assert second != first
    window.press("ArrowDown")
    assert window.run("document.activeElement.ariaLabel") not in (first, second)
    window.press("End")
    name = window.run("document.activeElement.ariaLabel").split(" on ")[0]
    window.press("Enter")
    assert window.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert window.run("location.hash") == f"#op={name}"
    window.press("Enter")
    assert window.run("document.activeElement.getAttribute('aria-expanded')") == "false"


def test_what_comes_from_a_bundle_is_only_text(
    pages: Path, window: Browser, pictures: Path
) -> None:
    """Names, sentences and versions that are markup, that end a script, that break lines: shown as
    they are."""
    window.show(pages / "hostile.html", width=390)
    assert window.problems == []
    name = "<script>alert(1)</script>"
    assert name in operators(window)
    window.run(f"location.hash = 'op=' + encodeURIComponent({json.dumps(name)})")
    window.run("new Promise(done => setTimeout(done, 100))")
    assert window.run("document.querySelectorAll('script').length") == 2
    assert window.run("document.querySelectorAll('img, iframe, object').length") == 0
    assert window.run("typeof window.broken") == "undefined"
    assert len(texts(window, ".panel .case")) == 1
    assert fits(window)
    assert window.problems == []
    window.picture(pictures / "report-hostile.png", whole=True)


def test_what_is_fine_is_folded_until_something_is_looked_for(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html")
    visible = (
        "[...document.querySelectorAll('.row .title')].filter(n => n.checkVisibility()).length"
    )
    assert (window.run(visible), len(operators(window))) == (2, 4)
    assert texts(window, ".fine summary") == ["2 operators without a failure"]
    choose(window, "dtype", "float64")
    assert window.run(visible) == len(operators(window)) == 2, "a filter unfolds"
    window.show(pages / "run.html", "#op=tan")
    assert window.run("document.querySelector('#operators .fine').open"), "so does an address"


def test_families_that_are_fine_are_folded_in_the_map(tmp_path: Path, window: Browser) -> None:
    results = [
        result("exp", "float32", "mine", "divergent", 9.0),
        *(result(name, "float32", "mine", "rounding", 0.1, family=f"family {name}")
        for name in ("sum", "add", "sort")),
    ]  # fmt: skip
    page.write(stored_run(tmp_path / "b", results), tmp_path / "run.html")
    window.show(tmp_path / "run.html")
    (fold,) = texts(window, "#heat .fine summary")
    assert fold.startswith("3 families without a failure: family add")
    shown = "[...document.querySelectorAll('.cell')].filter(n => n.checkVisibility()).length"
    assert window.run(shown) == 1
    window.run("document.querySelector('#heat details').open = true")
    assert window.run(shown) == 4


def test_a_finger_reads_the_name_of_a_square_first(pages: Path, window: Browser) -> None:
    window.show(pages / "run.html", width=390)
    tap = """(() => { const cell = document.querySelector('.cell');
        cell.dispatchEvent(new PointerEvent('pointerdown', {pointerType: 'touch', bubbles: true}));
        cell.dispatchEvent(new MouseEvent('click', {detail: 1, bubbles: true})); })()"""
    window.run(tap)
    name = window.run("document.querySelector('.cell').ariaLabel")
    assert texts(window, "#told") == [name]
    assert window.run("location.hash") in ("", "#")
    window.run(tap)
    assert window.run("location.hash") == f"#op={name.split(' on ')[0]}"


def test_every_case_has_a_link_and_links_to_its_files(tmp_path: Path, window: Browser) -> None:
    written = page.write(stored_run(tmp_path / "b"))
    window.show(written, "#op=matmul")
    links: list[str] = window.run("[...document.querySelectorAll('.link')].map(n => n.hash)")
    assert len(set(links)) == len(links) == 2
    files = window.run(
        "[...document.querySelectorAll('.panel dd a')].map(n => n.getAttribute('href'))"
    )
    assert files
    assert all((written.parent / name).is_file() for name in files)
    window.show(written, links[1])
    window.run(SETTLED)
    assert window.run("document.querySelectorAll('.case.linked').length") == 1
    assert window.problems == []


def test_what_changed_since_the_run_before(tmp_path: Path, window: Browser) -> None:
    before = [
        result("exp", "float32", "mine", "rounding", 0.5),
        result("sum", "float32", "mine", "divergent", 50.0),
    ]
    now = [
        result("exp", "float32", "mine", "divergent", 70.0),
        result("sum", "float32", "mine", "rounding", 0.2),
        result("tan", "float32", "mine", "divergent", 3.0),
    ]
    folders = [stored_run(tmp_path / name, rows) for name, rows in (("a", before), ("b", now))]
    for folder, day in zip(folders, (1, 2), strict=True):
        header = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
        header["created"] = f"2026-11-0{day}T08:00:00+00:00"
        (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    window.show(page.write(folders[1]))
    assert "2026-11-01 08:00" in texts(window, "#since")[0]
    changes = texts(window, "section[aria-labelledby=since] li")
    assert changes == ["exp on mine: divergent", "sum on mine"], "tan was not tested before"
    window.show(page.write(folders[0]))
    assert texts(window, "#since") == []


def test_a_browser_that_is_absent_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(pytest.skip.Exception, match="no browser here: none of chromium"):
        program()
