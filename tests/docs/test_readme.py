"""The examples of the README and of the pages on pytest and Python, taken from the pages."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.paths import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def block(page: str, language: str, containing: str) -> str:
    """The one block of a page in that language that contains those words."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (body,) = (body for kind, body in blocks if kind == language and containing in body)
    return body


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 130
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_both_commands_stand_behind_their_markers() -> None:
    for marker, words in (("first command", "consistency run"), ("second command", "pytest")):
        assert re.search(rf"<!-- {marker} -->\n```console\n.*{words}.*\n```", TEXT), marker


def test_the_old_question_is_rounding() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(block("README.md", "python", "assert_consistent(lambda"), {})
    assert re.fullmatch(r"0\.\d+ × budget: rounding\n", said.getvalue())


def test_the_public_interface_as_written() -> None:
    code = block("docs/python.md", "python", "class MyBackend")
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
        block("docs/pytest.md", "console", "--pyargs")
        .strip()
        .replace(" -n 2", "")
        .replace("matmul,softmax", "neg")
    )
    program, *options = shlex.split(command)
    assert program == "pytest"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "results.xml").exists()


def test_the_function_of_the_page_on_pytest() -> None:
    names: dict[str, Callable[[], None]] = {}
    exec(block("docs/pytest.md", "python", "def test_softmax"), names)
    names["test_softmax"]()


def test_the_shown_failure_is_the_page_on_scripts() -> None:
    script = block("README.md", "python", "linalg.matrix_exp")
    assert script == block("docs/repro-script.md", "python", "linalg.matrix_exp")
