"""`--profile large` on the command line: memory is one word, a bundle is completed, its cases are
shown again, and processes of their own judge alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from consistency.cli.main import main
from consistency.core.quantities import size_in_bytes
from consistency.engine.run_options import RunOptions
from consistency.errors import UsageError

RUN = ("run", "exp", "--dtype", "float32", "--direction", "forward", "--profile", "large")
SMALL = (*RUN, "--memory", "1M")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(
    ("text", "count"),
    [("8G", 8 << 30), ("8GB", 8 << 30), ("1.5 gib", 3 << 29),
     ("512M", 1 << 29), ("2048k", 2 << 20)],
)  # fmt: skip
def test_sizes(text: str, count: int) -> None:
    assert size_in_bytes(text) == count


@pytest.mark.parametrize("text", ["", "8X", "G", "-1G", "1k", "1e9G", "nan", "8 G B", "9" * 40])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is no size of a megabyte or more"):
        size_in_bytes(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*RUN, "--memory", "8X"), "write 512MB or 8GB"),
        (("run", "exp", "--memory", "8G"), "add --profile large"),
        (("run", "exp", "--profile", "larg"), "did you mean large?"),
        (("record", "exp", "--profile", "large", "-o", "x"), "is for `consistency run`"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in (result.output if result.output else str(result.exception))


def test_profiles_with_large_cases() -> None:
    assert RunOptions(profile="large").large_memory == 4 << 30
    assert RunOptions(profile="nightly").large_memory == 2 << 30
    assert RunOptions().large_memory == 0
    assert RunOptions(profile="large", examples=3).cases == 3


def test_a_bundle_of_large_cases(tmp_path: Path) -> None:
    out = str(tmp_path / "large")
    first = run(*SMALL, "--backend", "cpu", "--out", out)
    assert first.exit_code == 0, first.output
    lines = (tmp_path / "large/results.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines
    assert max(map(len, lines)) < 4000
    again = run(*SMALL, "--backend", "cpu", "--out", out, "--resume")
    assert again.exit_code == 0, again.output
    other = run(*RUN, "--memory", "2M", "--backend", "cpu", "--out", out, "--resume")
    assert other.exit_code == 2
    assert "other memory" in str(other.output) + str(other.exception)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "more", [("--jobs", "1", "--backend", "cpu"), ("--backend", "cpu+isolated")]
)
def test_processes_of_their_own(more: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*SMALL, *more, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output


def test_an_operator_without_large_cases_is_not_tested() -> None:
    result = run("run", "randn", "--profile", "large", "--backend", "cpu", "--no-bundle")
    assert result.exit_code == 3
    assert "nothing was tested" in result.output
