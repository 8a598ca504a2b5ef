"""``consistency fingerprint`` as people call it, and what runs keep of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import consistency
from consistency.backends import Backend
from consistency.cli.commands.fingerprint import _table
from consistency.engine.events import Judged
from consistency.probes.fingerprint import cache as kept
from consistency.probes.fingerprint import collect
from consistency.probes.fingerprint.facts import Fact, Fingerprint, unknown
from consistency.probes.fingerprint.sections import sections
from consistency.report import bundle_view
from consistency.report.history.diff import difference
from consistency.storage import bundle
from tests.support.commands import command

ASKED = ("matmul float32", "corner cases", "division float32")


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Some of the probes: all of them are asked in tests of their own."""
    every = collect.probes
    monkeypatch.setattr(
        collect, "probes", lambda *given: [probe for probe in every(*given) if probe.title in ASKED]
    )
    monkeypatch.chdir(tmp_path)


def test_a_card() -> None:
    result = command("fingerprint")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("cpu: how it computes  ·  torch ")
    assert "matmul float32  24 bits  24 bits, nearest even  exact" in " ".join(
        result.stdout.split("\n")
    ).replace("    ", "  ")
    assert "correctly rounded: " in result.stdout
    assert all(len(line) <= 132 for line in lines)


def test_every_fact_with_its_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "132")
    text = command("fingerprint --all").stdout
    assert "matmul/float32/compensation" in text
    assert "1 + 2^-p and 1.0101…b cut at p" in text
    assert "edges/float32/round(±0.5, ±1.5, 2.5)" in text


@pytest.mark.parametrize("columns", [72, 80, 100, 200])
def test_a_card_fits_its_terminal(columns: int) -> None:
    function = [Fact(f"{name}/{dtype}/{about}", text) for name in ("exp",
    "gelu") for dtype in ("float32", "float16", "bfloat16")
                for about, text in (("ulp", "within 2e+07 ulp, 1024 wrong NaN or infinity"),
                ("bits", "91d4aef5ed"))]  # fmt: skip
    sums = [Fact(f"{form}/float32/{about}",
    "24 bits, toward zero; 26 among terms added together") for form in ("matmul", "linear")
            for about in ("multiplicand", "accumulator", "products", "compensation")]  # fmt: skip
    tables = sections(
        Fingerprint.of(
            "x", [*function, *sums, Fact("sum/float32/order", "sequential 16, stride 32 + " * 9)]
        )
    )
    lines = [
        line for table in tables for line in _table(table.header, table.rows, min(columns, 132))
    ]
    assert max(map(len, lines)) <= min(columns, 132)
    assert "".join("".join(lines).split()).count("1024") == 6


def test_json_of_two_backends() -> None:
    rows = [
        json.loads(line)
        for line in command("fingerprint --json -b cpu -b cpu+threads=1").stdout.splitlines()
    ]
    assert [row["backend"] for row in rows] == ["cpu", "cpu+threads=1"]
    assert all(row["environment"]["torch"] for row in rows)
    found = Fingerprint.from_json(rows[0])
    assert found["matmul/float32/multiplicand"].answer == "24 bits"
    assert rows[0]["hash"] == found.hash


def test_a_backend_that_is_not_there() -> None:
    result = command("fingerprint -b cuda:97 -b cpu")
    assert result.exit_code == 3
    assert "cuda:97 is not available: " in result.stderr
    assert "cpu: how it computes" in result.stdout
    assert command("fingerprint -b cpux").exit_code == 2


def test_what_is_inconclusive_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(ask: Any) -> Iterator[Fact]:
        yield unknown("sum/float32/order", "the answers contradict each other")
        raise ValueError("no such shape")

    monkeypatch.setattr(collect, "probes", lambda *_: [collect.Probe("made up", "made/up", facts)])
    text = command("fingerprint").stdout
    assert "made/up: what came back cannot be read (ValueError: no such shape)" in " ".join(
        text.split()
    )


def run_into(folder: str, *more: str) -> None:
    result = command("run neg --examples 1 --dtype float32 --backend cpu --out", folder, *more)
    assert result.exit_code == 0, result.output


def test_a_bundle_keeps_it_and_the_report_and_diff_show_it() -> None:
    run_into("with", "--fingerprint")
    run_into("without", "--no-fingerprint")
    kept = bundle.read_environment(Path("with"))["cpu"]["fingerprint"]
    assert (
        kept["sums of products float32"].startswith("factors: 24")
        or "24 bits" in kept["sums of products float32"]
    )
    assert "fingerprint" not in bundle.read_environment(Path("without"))["cpu"]
    assert bundle_view.environments(Path("with"))[1] == {"cpu": kept}
    assert "How the backends compute" in Path("with/report.html").read_text(encoding="utf-8")
    assert (
        difference(Path("with"), Path("without")).environments == {}
    )  # what was not probed has not changed
    run_into("other", "--fingerprint")
    path = Path("other/environment.json")
    text = path.read_text(encoding="utf-8")
    for form in ("matmul", "linear", "bmm", "conv2d"):
        question = f'"{form}/float32/products": '
        text = text.replace(f'{question}"exact"', f'{question}"rounded to 24 bits"')
    path.write_text(text, encoding="utf-8")
    rows = difference(Path("with"), Path("other")).environments["cpu"]
    assert [(name, now.rpartition("products ")[2].split(";")[0]) for name, _, now in rows] == [
        ("fingerprint sums of products float32", "rounded to 24 bits")
    ]


# --- what is kept


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Who is probed after each run, in a cache of its own, with one quick probe."""
    names: list[str] = []

    def taken(backend: Backend, step: object = None) -> Fingerprint:
        names.append(backend.name)
        return Fingerprint.of(backend.name, [Fact("exp/float32/ulp", "within 0.5 ulp")])

    monkeypatch.setenv("CONSISTENCY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CONSISTENCY_PROBES")
    monkeypatch.setattr(kept, "take", taken)
    monkeypatch.setattr(kept, "LONG_SECONDS", 0.0)
    return names


def kept_in(folder: str) -> dict[str, object]:
    return {
        name: found.get("fingerprint")
        for name, found in bundle.read_environment(Path(folder)).items()
    }


def test_every_bundle_has_it_and_an_environment_is_probed_once(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_into("a")
    run_into("b")
    consistency.run(["neg"], ["cpu"], ["float32"], examples=1, out="c")
    assert asked == ["cpu"]
    assert kept_in("a") == kept_in("b") == kept_in("c")
    assert kept_in("a")["cpu"]
    run_into("d", "--fingerprint")
    assert asked == ["cpu", "cpu"]  # asked for
    run_into("e", "--no-fingerprint")
    assert kept_in("e") == {"cpu": None}
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")  # another environment
    run_into("f")
    assert asked == ["cpu"] * 3


def test_what_is_kept_is_there_from_the_beginning(asked: list[str]) -> None:
    """Also in the bundle of a run that is killed."""
    run_into("a")
    seen = []

    def look(event: object) -> None:
        if isinstance(event, Judged):
            seen.append(kept_in("b")["cpu"])

    consistency.run(["neg"], ["cpu"], ["float32"], examples=1, out="b", handlers=[look])
    assert seen
    assert all(seen)


def test_short_runs_do_not_probe(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LONG_SECONDS", 600.0)
    run_into("a")
    assert (asked, kept_in("a")) == ([], {"cpu": None})
    monkeypatch.setattr(kept, "LONG_SECONDS", 0.5)
    run_into("b", "--time-budget", "1s")
    assert asked == ["cpu"]


def test_results_are_told_before_and_probes_may_be_left_out(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = command("run neg -b cpu --dtype float32 --examples 1 --out a")
    assert (
        0
        < result.output.index("rounding or exact")
        < result.output.index("finding out how cpu computes, once in this environment")
    )
    assert "How the backends compute" in Path("a/report.html").read_text(encoding="utf-8")

    def interrupted(backend: Backend, step: object = None) -> Fingerprint:
        raise KeyboardInterrupt

    monkeypatch.setattr(kept, "take", interrupted)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")  # another environment
    result = command("run neg -b cpu --dtype float32 --examples 1 --out b")
    assert result.exit_code == 0
    assert "not all of that was found out; the bundle has everything else" in result.output
    assert kept_in("b") == {"cpu": None}
    assert json.loads(Path("b/bundle.json").read_text(encoding="utf-8"))["complete"] is True
    assert Path("b/report.html").exists()


def test_ones_own_backend_is_asked_again_and_in_long_runs_only(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(consistency.TorchBackend):
        pass

    monkeypatch.setattr(kept, "LONG_SECONDS", 600.0)
    consistency.run(["neg"], [Mine("mine", "cpu")], ["float32"], examples=1, out="a")
    assert asked == []
    monkeypatch.setattr(kept, "LONG_SECONDS", 0.0)
    for folder in ("b", "c"):
        consistency.run(["neg"], [Mine("mine", "cpu")], ["float32"], examples=1, out=folder)
    assert asked == ["mine", "mine"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a": 1}', '{"a": "' + "x" * 2000 + '"}', "{}" + " " * (1 << 18)]
)
def test_a_damaged_cache_is_no_answer(text: str, asked: list[str], tmp_path: Path) -> None:
    run_into("a")
    (path,) = (tmp_path / "cache" / "fingerprints").iterdir()
    path.write_text(text, encoding="utf-8")
    run_into("b")
    assert asked == ["cpu", "cpu"]
    assert kept_in("b") == kept_in("a")
