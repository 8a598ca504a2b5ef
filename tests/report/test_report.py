"""`consistency report`: what it counts, its text and Markdown forms, damaged bundles, what a run
writes by itself."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from consistency.cli import main
from consistency.engine import engine
from consistency.engine.events import Finished, Judged, Started
from consistency.errors import BundleError, OutputError
from consistency.report import bundles, markdown, page, page_data, page_parts
from consistency.report.bundle_view import read
from consistency.report.groups import (
    BINS,
    FAILS,
    MAX_POINTS,
    ReportGroup,
    ReportGroups,
    code,
    place,
)
from consistency.report.replay import show
from consistency.report.terminal import Screen
from tests.support.commands import command
from tests.support.example_bundles import BAD, HOSTILE, ordinary, result, stored_run
from tests.support.paths import ROOT
from tests.support.snapshots import Snapshot


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_run(tmp_path_factory.mktemp("report") / "run")


def data_of(html: str) -> dict[str, Any]:
    (found,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL
    )
    data: dict[str, Any] = json.loads(found)
    return data


# --- what is counted


def test_every_result_is_counted_once(run: Path) -> None:
    """The smaller form of a failure is shown beside it, and is no result of its own."""
    view = read(run)
    assert view.summary.results == len(list(ordinary())) == 62
    assert sum(sum(group.verdicts.values()) for group in view.groups) == 62
    assert view.summary.groups == {"passed": 51, "warned": 1, "failed": 4, "not tested": 6}
    for lines, size in ((view.smallest, 7), (view.worst, 1000)):
        (key,) = (key for key in lines if key.pool[0] == "matmul")
        shown = view.read_results([lines[key]])[lines[key]]
        assert shown.metrics["rho_max"] == 1400.0
        assert shown.case.tensors[0].base == (size, 4)  # type: ignore[union-attr]


def test_the_data_of_the_page(run: Path) -> None:
    found = data_of(page.page(read(run)))
    names = [row[0] for row in found["operators"]]
    assert names == ["exp", "matmul", "tan", "sum"]
    matmul = found["operators"][1]
    assert matmul[1:3] == ["matmul", 1], "its family, and that n is what is accumulated"
    (mine,) = (group for group in matmul[3] if found["backends"][group[1]] == "mine")
    counts = {
        found["verdicts"][v][0]: count for v, count in zip(mine[3][::2], mine[3][1::2], strict=True)
    }
    assert counts == {"divergent": 3, "rounding": 5}
    assert mine[2] == 1400
    assert sum(int(n) for n in mine[4].split(".") if n) == 8
    assert len(mine[5]) == 4 * 8
    assert sorted(row[2] for row in found["scaling"]) == [536900000, 536900000, 2199000000000]
    cases = [row for row in found["cases"] if row[0] == 1]
    worst, case = cases
    for row in cases:
        assert row[5].startswith("1,400 × budget: TF32 inputs explain 99%")
        assert row[9:11] == ["float32 inputs", "TF32 inputs explain 99%: 3 of 3 cases"]
    assert (worst[11], worst[13], case[11], case[13]) == (3, 0, 0, 1), "drawn, then minimized"
    assert len(case[8]) == 1, "by its folder, in which no recipe need be put"
    assert re.fullmatch(
        rf"consistency repro {run}/failures/\S+ --backend tests\S+:\w+ --direction forward",
        case[8][0],
    )


def test_places_on_an_axis() -> None:
    assert [place(value, 0) for value in (0.0, 1.0, 2.0, 4.0, float("inf"))] == [
        0,
        1,
        64,
        128,
        4095,
    ]
    assert place(2.0**-12, -12) == place(1e-300, -12) == 1
    assert place(1e300, -12) == 4095
    assert [code(number) for number in (0, 1, 64, 4095)] == ["AA", "AB", "BA", "__"]


def test_many_points_become_few_and_the_largest_stay() -> None:
    group = ReportGroup()
    for n in range(1, 100_000):
        group.show(float(n), 1e6 if n == 77_777 else 0.5 * n**0.5, n == 77_777)
    assert len(group.points) < 4 * MAX_POINTS
    for most in (3, 16, 48):
        text = group.encoded(most)
        assert len(text) <= 4 * most + 4
        assert code(place(77_777, 0) | FAILS) + code(place(1e6, -12)) in [
            text[i : i + 4] for i in range(0, len(text), 4)
        ]


def test_a_mean_budget_needs_some_cases(run: Path) -> None:
    groups = ReportGroups()
    for n, ulp in ((4, 2.0), (4, 8.0), (4, 4.0), (64, 1.0)):
        one = result("matmul", "float32", "cpu", "rounding", 0.5)
        numbers = replace(one, metrics={"rho_max": 0.5, "ulp_max": ulp})
        groups.add(numbers, {"outputs": [{"elements": 9, "terms": n}]})
    assert groups.budget("matmul", "float32", "forward") == code(2 * 64 + 32) + code(
        place(8.0, -12)
    ), "their mean, and not at 64"
    assert groups.budget("matmul", "float32", "backward") == ""


def test_bins_of_the_histogram() -> None:
    assert sorted(BINS) == list(BINS)
    stored_bins = data_of(page.page(read_of(HOSTILE)))["bins"]
    assert stored_bins == list(BINS)


def read_of(results: Any) -> Any:
    import tempfile

    return read(stored_run(Path(tempfile.mkdtemp()) / "b", results))


def test_the_page_stays_small_and_keeps_the_failures(tmp_path: Path) -> None:
    """Where there is no room, points become few and healthy cases go; the worst failures stay."""
    view = read(stored_run(tmp_path / "b"))
    large, small = (page_data.data(view, room) for room in (1_000_000, 93_000))
    assert len(page_parts.embed_json(small)) < len(page_parts.embed_json(large))
    assert small["operators"] == large["operators"]
    assert 0 < len(small["cases"]) < len(large["cases"]) == 5
    assert small["cases"] == large["cases"][: len(small["cases"])], "the failures come first"


# --- escaping


def test_json_in_a_script_element() -> None:
    text = page_parts.embed_json({"<a>": "</script><!-- \u2028 & 'x'"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"<a>": "</script><!-- \u2028 & 'x'"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        page_parts.embed_json(float("nan"))


def test_nothing_of_a_bundle_is_markup(tmp_path: Path) -> None:
    html = page.page(read(stored_run(tmp_path / "b", HOSTILE)))
    assert html.count("<script") == html.count("</script") == 2
    assert html.count("<!--") == 0
    assert "<img" not in html
    assert "{{" not in html.replace("{{ 7 * 7 }}", ""), "no template is read twice"
    assert " 49 " not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_policy_admits_only_what_we_wrote(run: Path) -> None:
    html = page.page(read(run))
    (found,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    policy = found.replace("&#39;", "'")
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; base-uri 'none'",
        policy.replace("&#39;", "'"),
    )
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", html)


# --- text and Markdown


def test_the_screen_of_a_stored_run_is_that_of_the_run(tmp_path: Path) -> None:
    """Line by line, but for the first, which says when it was."""
    stream, out = io.StringIO(), tmp_path / "b"
    chosen = engine.configure(["exp", "sum"], ["cpu", "numpy"], ["float32"], examples=3)
    screen, writer = Screen(stream=stream, out=out), bundles.writer(out)
    engine.drive(chosen, [writer, screen])
    again = io.StringIO()
    show(out, stream=again)
    first, *lines = again.getvalue().splitlines()
    took = re.compile(r"\d+\.\d s ")
    assert [took.sub("", line) for line in lines] == [
        took.sub("", line) for line in stream.getvalue().splitlines()[1:]
    ]
    assert re.fullmatch(
        (
            r"consistency \S+ · torch \S+ · \d{4}-\d\d-\d\d \d\d:\d\d · 2 operators, 3 cases each "
            r"· "
            r"seed 0"
        ),
        first,
    )


def test_failures_are_told_in_full(run: Path) -> None:
    result = command("report {} --text", run)
    assert result.exit_code == 0, result.output
    assert (
        "✗ matmul · float32 · forward · mine   divergent: 1,400 × budget\n"
        "  cause:   TF32 inputs explain 99%: 3 of 3 cases\n" in result.output
    )
    assert "  small:   divergent: 1,400 × budget\n" in result.output
    assert re.search(
        r"again:   consistency repro \S+/failures/\S+ --backend tests\S+:\w+ --direction forward",
        result.output,
    )
    assert "call:    matmul([7, 4], [4, 7])" in result.output
    assert result.output.splitlines()[-1].startswith("✗ 3 divergent · 1 special-values · ")
    assert "NumPy implementation of tan" in command("report {} --text --not-tested", run).output


def test_markdown_is_short_and_worst_first(snapshot: Snapshot, run: Path, tmp_path: Path) -> None:
    result = command("report {} --markdown", run)
    lines = result.output.splitlines()
    assert result.exit_code == 0
    snapshot(lines[0])
    table = [line for line in lines if line.startswith("| ")]
    assert [row.split(" | ")[1] for row in table[1:]] == ["exp", "matmul"]
    assert "1,400" in table[2]
    assert any(line.startswith("consistency repro ") for line in lines)
    assert "- cuda: torch is a CPU build\n" in result.output
    many = tuple(one for i in range(90) for one in _failing(f"operator_{i}"))
    said = markdown.markdown(read(stored_run(tmp_path / "many", many)))
    assert len(said.splitlines()) <= 60
    assert "90 operators fail" in said
    assert "… and 65 more operators" in said


def _failing(operator: str) -> Any:
    return (
        result(operator, "float32", "cpu", "divergent", 30.0),
        result("exp", "float32", "numpy", "unsupported"),
    )


def test_markdown_of_a_hostile_bundle(tmp_path: Path) -> None:
    said = markdown.markdown(read(stored_run(tmp_path / "b", HOSTILE)))
    outside = re.sub(r"```console.*?```", "", said, flags=re.DOTALL)
    assert "<" not in outside
    assert "@all" not in outside
    assert "\x1b" not in said
    assert said.count("```") == 2
    assert all(line.count("|") == 5 for line in outside.splitlines() if line.startswith("|"))
    assert markdown.plain(BAD).count("\n") == 0


def test_nothing_failed_and_nothing_tested(tmp_path: Path) -> None:
    good = stored_run(tmp_path / "good", tuple(one for one in ordinary() if one.verdict.passes))
    assert command("report {} --markdown", good).output.startswith(
        "### ✅ consistency: 51 results agree with float64"
    )
    assert "Nothing fails" in page.page(read(good))
    empty = stored_run(
        tmp_path / "empty", tuple(one for one in ordinary() if not one.verdict.tested)
    )
    assert command("report {} --markdown", empty).output.startswith(
        "### ⚠️ consistency: nothing was tested"
    )
    assert "Nothing was tested" in page.page(read(empty))


# --- the command


def test_where_the_page_goes(run: Path, tmp_path: Path) -> None:
    assert command("report", run).output == f"wrote {run / 'report.html'}\n"
    assert (
        command("report {} -o {}", run, tmp_path / "x.html").output
        == f"wrote {tmp_path / 'x.html'}\n"
    )
    within, elsewhere = (
        path.read_text(encoding="utf-8") for path in (run / "report.html", tmp_path / "x.html")
    )
    assert elsewhere == within.replace('"linked":true', '"linked":false'), "it has no neighbors"
    assert command("report {} --markdown -o {}", run, tmp_path / "x.md").exit_code == 0
    assert (tmp_path / "x.md").read_text(encoding="utf-8").startswith("### ❌")


@pytest.mark.parametrize(
    ("name", "spoil", "text"),
    [
        ("results.jsonl", lambda s: s.replace(b'"exp"', b'"exp', 1), "results.jsonl:3  damaged"),
        ("results.jsonl", lambda s: s.replace(b'"verdict": "rounding"', b'"verdict": "fine"', 1),
        "'fine' is no verdict"),
        ("results.jsonl", lambda s: s.replace(b'"metrics"', b'"other"', 1), "it has no 'metrics'"),
        ("results.jsonl", lambda s: s.replace(b'"backend": "cpu"', b'"backend": 3', 1),
        "backend is 3; expected is a text"),
        ("results.jsonl", lambda s: s.replace(b'"rho_max": 0.', b'"rho_max": "x", "y": 0.', 1),
        "metrics.rho_max is 'x'; expected is a finite number"),
        ("results.jsonl", lambda s: s.replace(b'"elements"', b'"elements": "many", "e"', 1),
        "outputs[0].elements is 'many'; expected is a finite number"),
        ("results.jsonl", lambda s: s.replace(b'"comparison": {', b'"comparison": [1], "c": {', 1),
        "comparison is [1]; expected is an object"),
        ("results.jsonl", lambda s: b"[1]\n" + s, "results.jsonl:1  damaged: not an object"),
        ("results.jsonl", lambda s: b"\n" + s, "results.jsonl:1  damaged"),
        ("results.jsonl", lambda s: s.replace(b'"operator": "exp"', b'"operator": "tan"'),
        "its case is of another operator"),
        ("cases.jsonl", lambda s: b"{}\n", "cases.jsonl:1  damaged: a case has no id"),
        ("cases.jsonl", lambda s: b"", "cases.jsonl has no case"),
        ("environment.json", lambda s: b"[]", "environment.json does not describe"),
        ("environment.json", lambda s: b"{", "environment.json cannot be read"),
        ("scaling.jsonl", lambda s: s.replace(b'"ratio": ', b'"ratio": -', 1),
        "scaling.jsonl:1  damaged"),
        ("determinism.jsonl", lambda s: s.replace(b'"runs"', b'"walks"', 1),
        "'walks' is no way to repeat a case"),
        ("memory.jsonl", lambda s: s.replace(b"4096.0", b'"lots"', 1), "damaged"),
        ("bundle.json", lambda s: s.replace(b'"format": 2', b'"format": 7'), "has format 7"),
    ],
)  # fmt: skip
def test_a_damaged_bundle_is_one_line(tmp_path: Path, name: str, spoil: Any, text: str) -> None:
    folder = stored_run(tmp_path / "b")
    path = folder / name
    before = path.read_bytes()
    path.write_bytes(spoil(before))
    assert path.read_bytes() != before
    for form in ([], ["--text"], ["--markdown"]):
        result = command("report", folder, *form)
        assert result.exit_code == 2, (form, result.output)
        assert result.output.count("\n") == 1, result.output
        assert text in result.output
        assert "Traceback" not in result.output


ODD = [
    b"null",
    b"1e999",
    b"-1",
    b'"x"',
    b"[]",
    b"{}",
    b"true",
    b"NaN",
    b"99999999999999999999999999",
    b'""',
    b"0",
    b'"\\ud800"',
    b"1e308",
]

PART = rb'-?\d+\.?\d*(e[+-]?\d+)?|"[^"]*"|\[[^\[\]]*\]|\{[^{}]*\}|true|false|null'


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_damaged_ends_well(run: Path, tmp_path: Path, seed: int) -> None:
    """Numbers, texts and bytes exchanged at random: a report, or one line."""
    draw = random.Random(seed)
    names = [path.name for path in run.iterdir() if path.suffix in (".json", ".jsonl")]
    for number in range(8):
        folder = tmp_path / str(number)
        shutil.copytree(run, folder)
        path = folder / draw.choice(names)
        data = path.read_bytes()
        for _ in range(draw.choice([1, 1, 2, 3])):
            parts = list(re.finditer(PART, data))
            if not parts:
                break
            part = draw.choice(parts)
            data = data[: part.start()] + draw.choice(ODD) + data[part.end() :]
        if draw.random() < 0.2:
            at = draw.randrange(len(data))
            data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
        path.write_bytes(data)
        for form in (_page, _markdown, _screen):
            with contextlib.suppress(BundleError):
                form(folder).encode()


def _page(folder: Path) -> str:
    return page.page(read(folder))


def _markdown(folder: Path) -> str:
    return markdown.markdown(read(folder))


def _screen(folder: Path) -> str:
    stream = io.StringIO()
    show(folder, stream=stream)
    return stream.getvalue()


def test_a_killed_run_has_a_report(run: Path, tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "b")
    path = folder / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    header = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    del header["seconds"], header["complete"]
    (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    assert "the run did not end" in page.page(read(folder))
    assert "did not end" in command("report {} --text", folder).output.splitlines()[-1]


@pytest.mark.parametrize(("arguments", "text"), [
    (["nowhere"], "nowhere is not a bundle: there is no such folder"),
    (["nowhere", "--text", "--markdown"], "ask for one of them"),
    (["nowhere", "--not-tested"], "add --text"),
    (["nowhere", "--text", "-o", "x"], "leave -o out"),
])  # fmt: skip
def test_a_mistake_is_one_line(arguments: list[str], text: str) -> None:
    result = command("report", *arguments)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert text in result.output


def test_a_page_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write .* name another file with -o"):
        page.write(run, tmp_path / "no" / "x.html")


# --- at the end of a run


def test_a_run_writes_its_page_and_says_where(tmp_path: Path) -> None:
    out = tmp_path / "b"
    arguments = [
        "run", "exp", "--backend", "cpu", "--backend", "numpy", "--dtype", "float32", "--examples",
        "2", "--out", str(out),
    ]  # fmt: skip
    result = CliRunner().invoke(main.main, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].endswith(f"bundle {out}    page {out / 'report.html'}")
    assert data_of((out / "report.html").read_text(encoding="utf-8"))["operators"][0][0] == "exp"


def test_a_page_that_fails_costs_the_run_nothing(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = engine.configure(["exp"], ["cpu"], examples=1)
    writer, finish = bundles.writer(tmp_path / "b"), page.after(tmp_path / "b")
    monkeypatch.setattr(page, "page", lambda view, **_: 1 / 0)
    one = next(ordinary())
    for event in (Started(chosen, {}, 1, 1), Judged(one.case, (one,)), Finished(1.0, False)):
        writer(event)
        finish(event)
    snapshot((tmp_path / "b" / "report.txt").read_text(encoding="utf-8"))


# --- what nobody sends, and what will come


def test_a_fingerprint_is_shown_where_there_is_one(run: Path, tmp_path: Path) -> None:
    assert "How the backends compute" not in page.page(read(run))
    folder = stored_run(tmp_path / "b")
    path = folder / "environment.json"
    environment = json.loads(path.read_text(encoding="utf-8"))
    environment["cpu"]["fingerprint"] = {"multiplicand": "24 bits", "order": {"tree": [1, 2]}}
    environment["mine"]["fingerprint"] = {"multiplicand": "11 bits", BAD: BAD}
    path.write_text(json.dumps(environment), encoding="utf-8")
    html = page.page(read(folder))
    assert "How the backends compute" in html
    assert "11 bits" in html
    assert "{&#34;tree&#34;: [1, 2]}" in html
    assert "<img" not in html


def test_environments_side_by_side() -> None:
    found = page.compared(
        {"a": {"torch": "2", "threads": "1"}, "b": {"torch": "2", "threads": "8", "blas": "x"}},
        ["b", "a", "none"],
    )
    assert found["backends"] == ["b", "a"]
    assert found["equal"] == [("torch", "2")]
    assert found["differing"] == [
        ("threads", [("8", True), ("1", True)], True),
        ("blas", [("x", True), ("", True)], False),
    ]


@pytest.mark.nightly
def test_a_bundle_of_many_names_makes_no_endless_page(tmp_path: Path) -> None:
    """Ten thousand operators with long names on as many backends: a page of bounded size, which
    says what it leaves out."""
    folder = stored_run(tmp_path / "b", HOSTILE)
    with (folder / "results.jsonl").open("a", encoding="utf-8", newline="\n") as stream:
        for i in range(10_000):
            row = {
                "operator": f"{i}{'<' * 180}",
                "dtype": f"dtype{i}",
                "direction": "forward",
                "backend": f"{i} {BAD}",
            }
            row |= {
                "verdict": "unsupported",
                "explanation": BAD * 20,
                "metrics": {},
                "case_id": "x",
                "family": f"{i}" + "f" * 500,
            }
            stream.write(json.dumps(row) + "\n")
    html = page.page(read(folder))
    assert len(html.encode()) < 3_000_000
    assert data_of(html)["left_out"] > 1000
    assert command("report {} --markdown", folder).output.count("\n") <= 60


@pytest.mark.nightly
def test_what_must_hold_of_large_bundles() -> None:
    """Seconds, memory and the page's size, of bundles that the benchmark writes; it exits with 1
    where a limit is passed."""
    script = ROOT / "benchmarks" / "report.py"
    done = subprocess.run(
        [sys.executable, str(script), "20000", "100000"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("MB of memory") == 2 * 3  # report, diff, matrix
