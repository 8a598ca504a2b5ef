"""docs/record-and-judge.md, executed: what it shows works."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import consistency
from consistency.cli.main import main
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "record-and-judge.md").read_text(encoding="utf-8")
SUMMARY, _, EXAMPLE = PAGE.partition("## A worked example")


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [
        line
        for body in blocks
        for line in body.splitlines()
        if re.match(r"consistency (record|judge) ", line)
    ]


def done(line: str) -> Result:
    """The command in this process, in the current folder."""
    found = CliRunner().invoke(main, shlex.split(line)[1:], prog_name="consistency")
    assert isinstance(found.exception, SystemExit | None), found.exception
    return found


@pytest.mark.nightly
def test_the_worked_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "losing.py").write_text(code, encoding="utf-8")
    *recorded, judged = [done(line) for line in commands(EXAMPLE)]
    assert [run.exit_code for run in recorded] == [0, 0, 0], [run.stderr for run in recorded]
    assert judged.exit_code == 1, judged.stderr
    shown = PAGE.partition("```text\n")[2].splitlines()
    for line in (*shown[:2], shown[3].partition("--id")[0]):
        assert line in judged.stdout, judged.stdout
    rows = [
        json.loads(line)
        for line in (tmp_path / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert {row["backend"] for row in rows} == {"cpu", "losing"}
    assert {row["operator"] for row in rows if row["fails"]} == {"add_"}


def test_the_commands_in_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = commands(SUMMARY)
    assert len(lines) == 4
    smaller = [
        line.replace("--backend directml", "--backend cpu").replace(
            "--backend cuda", "--backend numpy"
        )
        for line in lines
    ]
    few = "--dtype float32 --examples 2"
    runs = [done(line.replace("--examples 20", few)) for line in smaller]
    assert [run.exit_code for run in runs] == [0, 0, 0, 0], [run.stderr for run in runs]
    rows = (tmp_path / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(row)["backend"] for row in rows} == {"cpu", "numpy"}


def test_the_functions_that_the_page_names_exist() -> None:
    for name in re.findall(r"`consistency\.(\w+)\(", PAGE):
        assert callable(getattr(consistency, name))
