"""The site of the matrix in a real browser: no errors, nothing fetched, legible, by keyboard,
narrow, dark; its query box."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from consistency.cli.main import main
from consistency.errors import UsageError
from consistency.report.history import feed
from consistency.report.history import site as site_module
from consistency.report.history.bundle_sources import bundles
from consistency.report.history.filter_query import parse
from consistency.report.history.query_entries import entries, names
from consistency.report.history.site import write
from consistency.report.history.snapshot import NAME_OF, snapshot
from consistency.report.history.store import Store
from tests.report.test_report_page import CONTRAST, OF_THE_PAGE, SETTLED, fits, texts
from tests.support.browser import Browser, browser
from tests.support.commands import command
from tests.support.nights import night, quiet, row

BAD = (
    "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'><!-- {{ "
    "7 * 7 }} \" ' `"
)
PAGES = ("index.html", "latest.html", "environments.html", "operators/tan.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three machines over 20 nights: a driver makes tan fail on one on the last night; exp fails on
    two; sin is flaky."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(20):
        last = number == 19
        tan = quiet("tan")
        if last:
            more = {
                "cause": "tf32-inputs",
                "share": 0.99,
                "workaround": "float32 inputs",
                "backend": "directml",
            }
            tan[2] = row("tan", tan[2]["case_id"], "divergent", 2300.0, **more)
        sin = quiet("sin")
        if number in (3, 8, 9, 13, 16):
            sin[0] = row("sin", sin[0]["case_id"], "divergent", 4.0)
        exp = quiet("exp")
        if number > 8:
            exp[0] = row("exp", exp[0]["case_id"], "divergent", 12.0)
        rows = [
            {**one, "backend": "directml"}
            for one in (*tan, *sin, *exp, *quiet("nn.functional.layer_norm"))
        ]
        here = night(
            folder, number, rows, label="rtx3070", driver="31.0.15.5222" if last else "31.0.15.4601"
        )
        night(folder, number, [*quiet("tan"), *exp, *quiet("sin")], label="xeon", driver="")
        night(
            folder,
            number,
            [*quiet("tan"), row("tan", "tan-u", "unsupported", None)],
            label="old",
            driver="24.1",
        )
    failed = here / "failures" / "tan-0000000002-directml-forward"
    failed.mkdir(parents=True)
    (failed / "repro.py").write_text("print('again')\n", encoding="utf-8")
    (failed / "secret.txt").write_text("not copied\n", encoding="utf-8")
    held = Store(folder / "kept.duckdb")
    held.take(bundles([folder])[0])
    made = snapshot(held)
    out = write(made, folder / "site")
    (folder / "entries.json").write_text(json.dumps(list(entries(made))), encoding="utf-8")
    (folder / "names.json").write_text(json.dumps(names(made)), encoding="utf-8")
    held.close()
    return out


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize("page", PAGES)
def test_every_page_looks_right(
    site: Path, window: Browser, page: str, width: int, dark: bool
) -> None:
    window.show(site / page, "#op=tan" if page == "index.html" else "", width=width, dark=dark)
    window.run(SETTLED)
    assert window.problems == []
    assert [address for address in window.fetched if not address.startswith(OF_THE_PAGE)] == []
    assert fits(window)
    told = window.run(CONTRAST)
    assert told["many"] > 15
    assert told["worst"] >= 4.5, told


def squares(window: Browser) -> list[str]:
    found: list[str] = window.run(
        "[...document.querySelectorAll('.square:not(.away)')].map(n => n.ariaLabel)"
    )
    return found


def asked(window: Browser, text: str) -> list[str]:
    """The operators that a query leaves."""
    window.run(
        f"(() => {{ const q = document.getElementById('q'); q.value = "
        f"{json.dumps(text)};q.dispatchEvent(new Event('input')); }})()"
    )
    found: list[str] = window.run(
        "[...document.querySelectorAll('.line .title')].map(n => n.firstChild.data)"
    )
    return found


def test_what_the_index_shows(site: Path, window: Browser) -> None:
    window.show(site / "index.html")
    assert texts(window, "h1") == ["1 new failure in the latest runs"]
    assert "tan" in texts(window, ".worst li")[0]
    assert "driver 31.0.15.4601 → 31.0.15.5222" in texts(window, ".worst li")[0]
    assert (
        "tan on rtx3070 · directml: 2300 × budget, divergent (float32 forward), since "
        "2026-10-20, new"
    ) in [label.replace("2,300", "2300") for label in squares(window)]
    assert [t.split("\n")[0] for t in texts(window, ".heads > span")[1:]] == [
        "oldcpudriver 24.1 · torch 2.13.0",
        "rtx3070directmldriver 31.0.15.5222 · torch 2.13.0",
        "xeoncputorch 2.13.0",
    ]
    window.run("document.querySelector('.one[data-op] .title').click()")
    detail = texts(window, ".detail:not([hidden])")[0]
    for words in (
        "since2026-10-20: driver 31.0.15.4601 → 31.0.15.5222",
        "tf32-inputs",
        "float32 inputs",
        "consistency repro",
    ):
        assert words in detail
    assert window.run("location.hash") == "#op=tan"
    (link,) = window.run(
        "[...document.querySelectorAll('.detail .small a')].map(n => n.getAttribute('href'))"
    )
    assert (site / link).read_text(encoding="utf-8") == "print('again')\n"
    assert not list(site.rglob("secret.txt"))


def test_a_command_can_be_copied(site: Path, window: Browser) -> None:
    for page in ("index.html", "operators/tan.html", "latest.html"):
        window.show(site / page, "#op=tan" if page == "index.html" else "")
        window.send(
            "Browser.grantPermissions",
            permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        )
        window.run("document.querySelector('button.copy').click()")
        window.run("new Promise(done => setTimeout(done, 200))")
        text = window.run("navigator.clipboard.readText()")
        assert re.search(
            (
                r"^consistency repro \S+019 --id tan-0000000002 --backend directml --direction "
                r"forward$"
            ),
            text,
        )


def test_queries_narrow_the_matrix_and_stand_in_the_address(site: Path, window: Browser) -> None:
    window.show(site / "index.html")
    everything = ["tan", "exp", "nn.functional.layer_norm", "sin"]
    for text, left in (
        ("", everything), ("verdict:fail", ["tan", "exp"]), ("count:1(fail)", ["tan"]),
        ("count:2(fail)", ["exp"]),
        ("kind:new", ["tan"]),
        ("backend:directml driver:>=31", everything), ("driver:>=32", []), ("operator:nn.*",
        ["nn.functional.layer_norm"]),
        ("flaky:>0", ["sin"]), ("since:>=2026-10-20", ["tan"]), ("rho:>100 cause:tf32*", ["tan"]),
        ("label:old,xeon layer", []),
        ("fingerprint:fma", everything), ("-verdict:pass -verdict:untested", ["tan", "exp"]),
        ("machine.os:lin*", everything),
    ):  # fmt: skip
        assert asked(window, text) == left, text
    asked(window, "verdict:fail rho:>100")
    assert window.run("location.hash") == "#q=verdict%3Afail+rho%3A%3E100"
    window.show(site / "index.html", "#q=count%3A1(fail)")
    assert window.run("document.querySelectorAll('.one').length") == 1
    asked(window, "verdikt:fail")
    assert texts(window, "#wrong") == ["verdikt is no key; did you mean verdict?"]
    assert window.run("document.querySelectorAll('.one').length") == 1, (
        "what was understood last stays"
    )
    window.run("document.querySelector('#ask button').click()")
    assert window.run("location.hash") in ("", "#")
    assert texts(window, "#wrong") == [""]
    window.run("document.querySelector('#examples button').click()")
    assert texts(window, "#count") == ["2 operators, 3 cells"]
    assert window.problems == []


def test_by_keyboard_alone(site: Path, window: Browser) -> None:
    window.show(site / "index.html")
    seen = []
    for _ in range(40):
        window.press("Tab")
        seen.append(window.run("document.activeElement.outerHTML.slice(0, 60)"))
        ring = window.run("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none" or "skip" in seen[-1], seen[-1]
        if 'class="square' in seen[-1]:
            break
    assert 'class="skip"' in seen[0]
    assert any('id="q"' in s for s in seen)
    assert 'class="square' in seen[-1], seen
    window.press("ArrowRight")
    assert window.run("document.activeElement.ariaLabel").startswith("tan on rtx3070")
    window.press("Enter")
    assert window.run("location.hash") == "#op=tan&env=rtx3070+%C2%B7+directml"
    window.press("Enter")
    assert window.run("location.hash") in ("", "#")
    window.press("ArrowDown")
    assert window.run("document.activeElement.ariaLabel").startswith("exp on rtx3070")


def test_lines_over_the_nights(site: Path, window: Browser) -> None:
    window.show(site / "operators" / "tan.html")
    assert window.run("document.querySelectorAll('.night-line').length") == 1
    assert window.run("document.querySelectorAll('.night-line .change.worse').length") == 1
    (change,) = texts(window, ".changes li")
    assert "2026-10-20 fails now: 0.3 → 2,300 × budget, 1 of 6 cases" in change
    assert "driver 31.0.15.4601 → 31.0.15.5222" in change
    assert len(texts(window, ".now")) == 3


def test_two_nights_are_compared(site: Path, window: Browser) -> None:
    window.show(site / "index.html")
    dates = window.run("[...document.querySelector('#nights select').options].map(o => o.value)")
    assert dates[0] == ""
    assert len(dates) == 21
    older, newer = dates[-1], dates[1]
    window.run(f"""(() => {{ const form = document.getElementById('nights');
        form.elements.a.value = {json.dumps(older)}; form.elements.b.value = {json.dumps(newer)};
        form.elements.b.dispatchEvent(new Event('input', {{bubbles: true}})); }})()""")
    assert window.run("location.hash") == f"#a={older}&b={newer}"
    changed = window.run("[...document.querySelectorAll('.square.changed')].map(n => n.ariaLabel)")
    assert any(line.startswith("tan on rtx3070 · directml: ") for line in changed), changed
    assert any(line.startswith("exp on xeon · cpu: ") for line in changed), changed
    assert not any(line.startswith("nn.functional.layer_norm") for line in changed)
    window.show(site / "index.html", f"#a={newer}&b={newer}")
    assert texts(window, "#count") == [f"No operator has changed from {newer} to {newer}."]
    assert window.problems == []


def test_a_line_tells_its_nights(site: Path, window: Browser) -> None:
    window.show(site / "index.html")
    window.run("""(() => { const line = document.querySelector('.square svg');
        const box = line.getBoundingClientRect(), at = (x) => line.dispatchEvent(new PointerEvent(
        'pointermove', {bubbles: true, clientX: box.left + x * box.width, clientY: box.top + 1}));
        at(0.999); })()""")
    assert "2026-10-20: " in texts(window, "#told")[0]
    window.show(site / "operators" / "tan.html")
    told = texts(window, ".night-line .night title")
    assert any(line.startswith("2026-10-20: largest 2,3") for line in told), told[-1:]


def test_the_heads_stay_in_sight(site: Path, window: Browser) -> None:
    window.show(site / "index.html", height=500)
    assert window.run("getComputedStyle(document.querySelector('.heads')).position") == "sticky"
    assert window.run("""(() => { const grid = document.getElementById('grid');
        grid.style.maxHeight = '120px'; grid.scrollTop = 90;
        const heads = document.querySelector('.heads').getBoundingClientRect();
        return Math.abs(heads.top - grid.getBoundingClientRect().top) < 2; })()""")


def test_a_badge_and_a_feed(site: Path) -> None:
    from xml.etree import ElementTree

    badge = ElementTree.fromstring((site / "badge.svg").read_text(encoding="utf-8"))
    assert (badge.get("aria-label") or "").startswith("consistency: 3 fail, 1 new, 2026-10-20")
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ElementTree.fromstring((site / "feed.xml").read_text(encoding="utf-8"))
    entries = feed.findall(f"{atom}entry")
    assert any("tan · float32 forward" in (e.findtext(f"{atom}title") or "") for e in entries)
    nights = [(e.findtext(f"{atom}updated") or "")[:10] for e in entries]
    assert nights[0] == "2026-10-20"
    before = {n for n, e in zip(nights, entries, strict=True) if "exp ·" in "".join(e.itertext())}
    assert before == {"2026-10-10"}  # exp began to fail that night, and the feed still holds it
    assert len({e.findtext(f"{atom}id") for e in entries}) == len(entries)
    links = [e.find(f"{atom}link") for e in entries]
    assert all(link is not None and (site / str(link.get("href"))).is_file() for link in links)


def test_a_feed_holds_text_only() -> None:
    from xml.etree import ElementTree

    bad = "</title><script>alert(1)</script> & \x1b[31m \ud800"
    row = dict.fromkeys(
        ("operator", "kind", "environment", "numbers", "age", "cause", "why", "night"), bad
    ) | {"file": 'operators/"><x>.html'}
    latest = {
        "night": "2026-10-20", "summary": bad, "failing": 1, "good": False, "bad": True,
        "parts": [{"kind": "new", "mark": "✗", "title": bad, "rows": [row], "count": 1}],
        "troubled": [{"name": bad, "words": bad, "since": bad, "why": bad}],
    }  # fmt: skip
    earlier = [row | {"event": latest["parts"][0]}]  # type: ignore[index]
    for text in (feed.feed(latest, earlier), feed.badge(latest)):
        tree = ElementTree.fromstring(text.encode("utf-8", "backslashreplace"))
        assert not [node for node in tree.iter() if node.tag.endswith(("script", "x"))]


def test_environments_can_be_searched(site: Path, window: Browser) -> None:
    window.show(site / "environments.html", "#q=31.0.15.5222")
    assert window.run(
        "[...document.querySelectorAll('.environment:not([hidden]) h2')].map(n => n.textContent)"
    ) == ["rtx3070 · directml"]
    window.run(
        "(() => { const f = document.getElementById('find'); f.value = 'xeon cpu'; "
        "f.dispatchEvent(new Event('input')); })()"
    )
    assert texts(window, ".environment:not([hidden]) h2") == ["xeon · cpu"]
    assert window.run("location.hash") == "#q=xeon+cpu"


def test_both_readers_of_the_language_agree(site: Path, window: Browser) -> None:
    """Python's and the page's: the same entries are left, or the same sentence says what is
    wrong."""
    kept = json.loads((site.parent / "entries.json").read_text(encoding="utf-8"))
    known = json.loads((site.parent / "names.json").read_text(encoding="utf-8"))
    texts_ = [
        "", "tan", "-tan", "ta*", "operator:*n", "operator:ta*,exp",
        'environment:"rtx3070 · directml"', "verdict:divergent",
        "verdict:fail",
        "verdict:round*", "-verdict:pass", "kind:new", "kind:flaky,once", "rho:>1", "rho:<=0.25",
        "rho:12", "rho:=12",
        "flaky:>0.1",
        "since:2026-10-20", "since:<2026-10-20", "since:>=2026", "count:1(fail)", "count:>=2(pass)",
        "count:<3(pass)",
        "driver:>=31",
        "driver:>31.0.15.4601", "driver:<31", "driver:31.0.15.5222", "driver:=24.1", "driver:31*",
        "device:c?u", "torch:>=2.13",
        "torch:2.13.*", "fingerprint:fma", "fingerprint:yes", "cause:tf32*", "workaround:*inputs",
        "label:RTX*",
        "backend:directml,cpu tan",
        "machine.os:linux", "verdikt:fail", "verdict:fial", "kind:nw", "rho:>x", "rho:",
        "count:fail", "count:1(fails)",
        "since:yesterday",
        "driver:>=x", 'operator:"tan', "nonsense:1", "a:b:c", "-", "--tan", "(.*", "operator:[t]an",
        "operator:\\d", "flaky:>-1",
        "x" * 2001,
    ]  # fmt: skip
    window.show(site / "index.html")
    source = Path(site_module.__file__).with_name("templates") / "filter_query.js"
    window.run(
        "window.both = (() => {" + source.read_text(encoding="utf-8") + """
        return (text, names, verdicts, entries) => {
          try {
            const tests = parseQuery(text, names, verdicts);
            return entries.map((e, i) => tests.every((test) => test(e)) ? i : -1).filter((i) => i
            >= 0);
          } catch (error) { return error.message; }
        } })()"""
    )  # fmt: skip
    window.run(f"window.kept = {json.dumps(kept)}")
    verdicts, some = sorted(set(NAME_OF)), 0
    for text in texts_:
        there = window.run(
            f"both({json.dumps(text)}, {json.dumps(known)}, {json.dumps(verdicts)}, kept)"
        )
        try:
            query = parse(text, known, verdicts)
            here: object = [i for i, entry in enumerate(kept) if query.holds(entry)]
        except UsageError as error:
            here = str(error)
        assert here == there, text
        some += bool(here) and isinstance(here, list) and len(here) < len(kept)
    assert some > 20


def test_what_comes_from_a_bundle_is_only_text(tmp_path: Path, window: Browser) -> None:
    for number in range(3):
        bad = [
            row(
                f"<b>{BAD}",
                "exp-1",
                "divergent",
                5.0,
                cause=BAD,
                workaround=BAD,
                explanation=BAD,
                family=BAD,
                backend=BAD[:30],
            )
        ]
        night(
            tmp_path / "nights",
            number,
            [*bad, *quiet()],
            driver=f"{BAD}{number}",
            label=BAD[:70],
            id=f"hostile-{number}",
        )
    found = command("matrix {} -o {}", tmp_path / "nights", tmp_path / "site")
    assert found.exit_code == 0, found.output
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) == 5
    for page in pages:
        window.show(page, width=390)
        window.run("document.querySelector('.title')?.click()")
        assert window.problems == [], page
        assert window.run("typeof window.broken") == "undefined"
        assert window.run("document.querySelectorAll('img, iframe, b > script').length") == 0
        assert fits(window), page


def test_the_command_writes_a_site_and_reads_only_what_is_new(tmp_path: Path) -> None:
    for number in range(3):
        night(tmp_path / "nights", number, quiet())
    words = ["matrix", str(tmp_path / "nights"), "-o", str(tmp_path / "site")]
    first, second = (CliRunner().invoke(main, words) for _ in range(2))
    assert "1 operator × 1 environment, 3 nights" in first.stdout
    assert "3 of 3 bundles were new" in first.stdout
    assert "0 of 3 bundles were new" in second.stdout
    assert (tmp_path / "site.duckdb").is_file()
    nothing = command("matrix {} -o {}", tmp_path / "site", tmp_path / "other")
    assert nothing.exit_code == 2
    assert "there is no bundle in" in nothing.stderr
