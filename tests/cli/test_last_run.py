"""Commands without arguments take the last run; what is not whole says so; Ctrl-C tells what failed
until then."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import consistency
from consistency.backends.origins import UNNAMED, origin_of
from consistency.engine import engine
from consistency.report.failure import command as command_of
from consistency.report.failure import headline, message
from tests.support.commands import command


class Scaled(consistency.Backend):
    """The CPU with a wrong exp."""

    name = "scaled"

    def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
        result = super().call(operator, args, kwargs)
        return result * 1.01 if operator.name == "exp" else result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs below reports/: the older one with a failure, the newer one without."""
    here = tmp_path_factory.mktemp("work")
    for name, operator in (("one", "exp"), ("two", "neg")):
        time.sleep(1.1)  # a bundle knows its second
        consistency.run(
            [operator], ["cpu", Scaled()], ["float32"], ["forward"], examples=2, shipped=False,
            out=here / "reports" / name,
        )  # fmt: skip
    return here


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_without_arguments_the_last_run_is_taken(inside: Path) -> None:
    found = command("report --text")
    assert found.exit_code == 0
    assert f"the last run: {Path('reports') / 'two'}" in found.output
    compared = command("diff")
    assert compared.exit_code in (0, 3)
    assert compared.output == command("diff reports/one reports/two").output
    assert command("diff reports/one").output.endswith(compared.output)
    refused = command("diff reports/two")
    assert refused.exit_code == 2
    assert "reports/two would be compared with itself" in refused.output.replace("\\", "/")
    none = command("repro")
    assert none.exit_code == 2
    assert "no failure is kept in the last run" in none.output


def test_the_worst_failure_of_the_last_run_is_repeated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reports").mkdir()
    (folder / "reports" / "one").rename(tmp_path / "reports" / "one")
    try:
        monkeypatch.chdir(tmp_path)
        found = command("repro --backend cpu --trust")
        assert "the last run's failure" in found.output
        assert "exp · float32 · forward · cpu" in found.output
        assert found.exit_code == 0, "it does not fail on the CPU"
    finally:
        (tmp_path / "reports" / "one").rename(folder / "reports" / "one")


@pytest.mark.parametrize("line", ["report", "repro", "diff"])
def test_where_there_is_no_run_that_is_said(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = command(line)
    assert found.exit_code == 2
    assert found.output.startswith("consistency: there is no run below reports/; name one")


def test_a_bundle_that_is_not_whole_says_so(folder: Path, tmp_path: Path) -> None:
    from consistency.report import page

    source, copy = folder / "reports" / "two", tmp_path / "cut"
    copy.mkdir()
    for path in source.iterdir():
        if path.is_file():
            (copy / path.name).write_bytes(path.read_bytes())
    results = copy / "results.jsonl"
    whole = page.write(copy, tmp_path / "whole.html").read_text(encoding="utf-8")
    assert "Not whole" not in whole
    results.write_bytes(results.read_bytes()[:-40])
    cut = page.write(copy, tmp_path / "cut.html").read_text(encoding="utf-8")
    assert "Not whole:</strong> results.jsonl was cut off: it has " in cut
    assert "Nothing fails so far" in cut
    assert "not whole: results.jsonl" in command("report {} --text", copy).output
    assert "**Not whole:**" in command("report {} --markdown", copy).output
    header = json.loads((copy / "bundle.json").read_text(encoding="utf-8"))
    (copy / "bundle.json").write_text(
        json.dumps({k: v for k, v in header.items() if k not in ("seconds", "complete", "size")}),
        encoding="utf-8",
    )
    results.write_bytes(results.read_bytes().rpartition(b"\n")[0] + b"\n")
    killed = page.write(copy, tmp_path / "killed.html").read_text(encoding="utf-8")
    assert "Not whole:</strong> the run did not end" in killed


@pytest.mark.nightly
def test_an_interrupted_run_lists_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    drive = engine.drive

    def interrupted(config, handlers, *more):  # type: ignore[no-untyped-def]
        drive(config, [*handlers[:-1], _Until(handlers[-1])], *more)

    class _Until:
        def __init__(self, screen: engine.Handler) -> None:
            self.screen = screen

        def __call__(self, event: object) -> None:
            self.screen(event)  # type: ignore[arg-type]
            if type(event).__name__ == "Judged" and self.screen.summary.failures:  # type: ignore[attr-defined]
                raise KeyboardInterrupt

    monkeypatch.setattr(engine, "drive", interrupted)
    found = command(
        "run exp --dtype float32 --direction forward --examples 3 --no-shipped --no-bundle "
        "--jobs 1 --backend cpu --backend {}", f"{__file__}:Scaled",
    )  # fmt: skip
    assert found.exit_code == 130
    assert "✗ exp · float32 · forward · scaled" in found.output
    assert "  call:    exp(" in found.output  # of one element: no cause
    assert "interrupted after" in found.output


# --- a backend that is an object of a program


def test_a_class_of_a_module_is_named_so_that_a_command_finds_it(folder: Path) -> None:
    spec = origin_of(Scaled())
    assert spec.endswith(":Scaled")
    kept = json.loads((folder / "reports" / "one" / "bundle.json").read_text(encoding="utf-8"))
    assert kept["settings"]["specs"]["scaled"] == spec


def test_an_object_that_no_command_can_make_is_said_to_be_one(tmp_path: Path) -> None:
    class Inner(Scaled):
        name = "inner"

    assert origin_of(Inner()) == ""
    out = tmp_path / "bundle"
    run = consistency.run(
        ["exp"], ["cpu", Inner()], ["float32"], ["forward"], examples=2, shipped=False, out=out
    )
    worst = run.failures[0]
    text = message(worst, bundle=out)
    assert f"--backend {UNNAMED} " in text
    assert "FILE.py:NAME is where 'inner', an object of the program, is made" in text
    assert "--backend cpu " in command_of(run.results[0])
    (script,) = sorted(out.glob("failures/*/repro.py"))[:1]
    told = script.read_text(encoding="utf-8")
    assert 'else "cpu"' in told
    assert "a backend of your own ('inner')" in told
    issue = script.with_name("issue.md").read_text(encoding="utf-8")
    assert "--backend inner" not in issue
    assert "### Versions\n\n```text\nPyTorch version: " in issue


def test_a_headline_fits_a_line(folder: Path) -> None:
    class Inner(Scaled):
        pass

    run = consistency.run(["exp"], [Inner()], ["float32"], ["forward"], examples=4, shipped=False)
    for result in run.failures:
        first, cause, *rest = message(result).split("\n")
        assert len(first) <= 120
        assert len(headline(result)) <= 120
        assert cause.startswith("  cause:   " if result.cause else "  note:    ")
        assert "explains" not in first
        assert any(line.startswith("  again:") for line in rest)
