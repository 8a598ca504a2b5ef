"""docs/watch.md, executed: what it shows is what comes out."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import consistency
from consistency.training.trace import kinds
from consistency.training.trace.session import KEPT, LARGEST, MEMORY
from tests.docs.test_record_and_judge import done
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def plain(text: str) -> list[str]:
    """The lines, with N for every number: how many calls there are is torch's business."""
    return [re.sub(r"-?\d[\d,.]*", "N", line).rstrip() for line in text.splitlines()]


@pytest.mark.nightly
def test_the_walk_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for code in blocks(PAGE, "python"):
            exec(code, names)
    healthy, broken = blocks(PAGE, "text")
    first, second = (
        m.start() for m in re.finditer(r"^[\d,]+ calls of", said.getvalue(), re.MULTILINE)
    )
    for expected, found in (
        (healthy, said.getvalue()[first:second]),
        (broken, said.getvalue()[second:]),
    ):
        assert [line for line in plain(expected) if line not in plain(found)] == []
    assert names["call"].module == 'Linear "3"'  # type: ignore[attr-defined]
    commands = [line for block in blocks(PAGE, "console") for line in block.splitlines()]
    runs = [done(line) for line in commands]
    assert [run.exit_code for run in runs] == [0, 0], [run.output for run in runs]
    assert (tmp_path / "failure" / "repro.py").is_file()
    healthy_run = subprocess.run(
        [sys.executable, "repro.py", "cpu"],
        cwd=tmp_path / "failure",
        capture_output=True,
        text=True,
    )
    assert healthy_run.returncode == 0, healthy_run.stdout + healthy_run.stderr


def test_the_numbers_of_the_page_are_those_of_the_program() -> None:
    assert f"the first {KEPT} are judged" in PAGE
    assert f"one of more than {LARGEST >> 20} MiB" in PAGE
    assert f"more than {MEMORY >> 30} GiB held in all" in PAGE


def test_every_reason_has_a_line() -> None:
    words = {
        kinds.VIEW: "views and metadata", kinds.RANDOM: "random operators",
        kinds.UNINITIALIZED: "uninitialized memory",
        kinds.FACTORY: "no tensor's numbers", kinds.NUMBER: "`item()`", kinds.FOREIGN: "not aten's",
        kinds.NOT_CALLED: "",
        kinds.SUBCLASS: "tensor subclasses", kinds.UNUSUAL: "sparse, quantized",
        kinds.ARGUMENT: "a generator",
        kinds.DEVICES: "two devices", kinds.RAISED: "calls that raised", kinds.NOT_CAPTURED: "",
        kinds.REPEATED: "the same kind again",
    }  # fmt: skip
    told = {
        value
        for name, value in vars(kinds).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    assert told == set(words)
    assert all(word in PAGE for word in words.values())


def test_the_functions_that_the_page_names_exist() -> None:
    for name in re.findall(r"consistency\.(\w+)\(", PAGE):
        assert callable(getattr(consistency, name))
    for line in (line for block in blocks(PAGE, "console") for line in block.splitlines()):
        assert shlex.split(line)[0] == "consistency"
