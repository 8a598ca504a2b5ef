"""The README's examples, taken from the README itself."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from consistency.cli.main import main
from tests.support.paths import ROOT

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def block(language: str, containing: str) -> str:
    (found,) = (body for kind, body in BLOCKS if kind == language and containing in body)
    return found


def test_both_commands_stand_behind_their_markers() -> None:
    for marker, words in (("first command", "consistency run"), ("second command", "pytest")):
        assert re.search(rf"<!-- {marker} -->\n```console\n.*{words}.*\n```", TEXT), marker


def test_the_old_question_is_rounding() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(block("python", "assert_consistent(lambda"), {})
    assert re.fullmatch(r"0\.\d+ × budget: rounding\n", said.getvalue())


def test_the_public_interface_as_written() -> None:
    code = block("python", "class MyBackend")
    code, _, rest = code.partition("consistency.assert_consistent(fn")
    assert "consistency.compare(" in rest
    smaller = code.replace('"nn.functional.*"', '"nn.functional.relu"').replace(
        "examples=50", "examples=2"
    )
    assert smaller != code
    names: dict[str, object] = {}
    exec(smaller, names)
    assert not names["run"].failures  # type: ignore[attr-defined]


def test_the_ci_command(tmp_path: Path) -> None:
    command = (
        block("console", "--pyargs")
        .strip()
        .replace(" -n 2", "")
        .replace("matmul,softmax", "softmax")
    )
    program, *options = shlex.split(command)
    assert program == "pytest"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "results.xml").exists()


@pytest.mark.parametrize(
    "line", [line for kind, body in BLOCKS if kind == "console" for line in body.splitlines()]
)
def test_options_exist(line: str) -> None:
    """Every option that the README gives the command is one that its --help knows."""
    words = shlex.split(line)
    if words[:1] != ["consistency"]:
        assert words[:1] in (["python"], ["pytest"])
        return
    told = CliRunner().invoke(main, [words[1], "--help"])
    assert told.exit_code == 0
    assert not [word for word in words if word.startswith("--") and word not in told.output]
