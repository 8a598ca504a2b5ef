"""The ready-made workflow files: they parse, and what they tell the command line to do exists and
works."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from consistency.cli import main as cli
from tests.backends import test_onnxruntime
from tests.support.paths import ROOT

FOLDER = ROOT / "docs" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
SCRIPT = FOLDER / "nightly.sbatch"
_EXPRESSION = re.compile(r"\$\{\{[^}]*\}\}")


def loaded(path: Path) -> dict[str, Any]:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in loaded(path)["jobs"].values():
        yield from job["steps"]


def scripts(path: Path) -> list[str]:
    if path.suffix == ".sbatch":
        return [path.read_text(encoding="utf-8")]
    return [step["run"] for step in steps(path) if "run" in step]


def commands(path: Path, program: str = "consistency") -> list[list[str]]:
    """The words of every command line of ours: expressions become x, and what follows a pipe, || or
    >> is left out."""
    found = []
    for script in scripts(path):
        text = _EXPRESSION.sub(
            "",
            script.replace("${{ matrix.os }}", "x")
            .replace("$SLURM_NTASKS", "2")
            .replace("\\\n", " "),
        )
        for line in text.splitlines():
            match = re.search(rf"(?:^|srun |&& ){re.escape(program)} (.*)", line.strip())
            if match:
                words = shlex.split(match[1], comments=True)
                end = next(
                    (
                        i
                        for i, word in enumerate(words)
                        if word in ("||", ">>", "|", "&", "&&", ">")
                    ),
                    len(words),
                )
                found.append(
                    [re.sub(r"\$\(.*?\)|\$\{?[\w:/-]+\}?", "x", word) for word in words[:end]]
                )
    return found


def parsed(words: list[str]) -> click.Context:
    command = cli.main.commands[words[0]]
    return command.make_context(words[0], list(words[1:]))


def test_they_are_there() -> None:
    stems = ["cpu", "cuda", "directml", "newest-torch", "nightly"]
    assert [path.stem for path in WORKFLOWS] == stems
    assert all(commands(path) for path in [*WORKFLOWS, SCRIPT])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_says_what_it_must(path: Path) -> None:
    data = loaded(path)
    assert True in data, "YAML reads `on` as true"
    assert data["permissions"]["contents"] == "read"
    assert set(data["permissions"].values()) == {"read"}
    assert data["defaults"]["run"]["shell"] in ("bash", "pwsh")
    for job in data["jobs"].values():
        assert job["timeout-minutes"] <= 180
    for step in steps(path):
        assert ("run" in step) != ("uses" in step)
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]), step["uses"]
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 90


@pytest.mark.parametrize("path", [*WORKFLOWS, SCRIPT], ids=lambda path: path.name)
def test_every_command_line_is_one_that_we_take(path: Path) -> None:
    for words in commands(path):
        parsed(words)
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text


def test_the_commands_of_the_page_are_taken() -> None:
    page = FOLDER.parent / "many-machines.md"
    blocks = re.findall(
        r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    ours = [words[1:] for words in lines if words[0] == "consistency"]
    assert len(ours) >= 4
    for words in ours:
        parsed(words)
    for name in re.findall(r"\]\((workflows/[\w.]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / name).is_file()


def test_the_runtime_of_every_push_runs_what_is_tested() -> None:
    (words,) = [w for w in commands(FOLDER / "cpu.yml") if "onnxruntime" in w]
    run = parsed(words)
    assert run.params["operators"] == test_onnxruntime.CORPUS
    assert run.params["backends"] == ("cpu", "onnxruntime")


def test_a_wrong_option_would_be_noticed() -> None:
    with pytest.raises(click.UsageError):
        parsed(["run", "--labell", "x"])
    with pytest.raises(KeyError):
        parsed(["ran"])


def test_torch_is_pinned_where_directml_needs_it() -> None:
    text = (FOLDER / "directml.yml").read_text(encoding="utf-8")
    assert '"torch==2.4.1" "consistency[directml]"' in text
    assert 'python-version: "3.12"' in text


def test_what_slurm_tells_dask_exists() -> None:
    pytest.importorskip("distributed")
    from distributed.cli import dask_scheduler, dask_worker

    for program, main in (
        ("dask scheduler", dask_scheduler.main),
        ("dask worker", dask_worker.main),
    ):
        (words,) = commands(SCRIPT, program)
        known = {
            option
            for parameter in main.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    "path",
    [path for path in [*WORKFLOWS, SCRIPT] if path.stem != "directml"],
    ids=lambda path: path.name,
)
def test_bash_can_read_it(path: Path) -> None:
    text = "\n".join(_EXPRESSION.sub("x", script) for script in scripts(path))
    done = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_nightly_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of nightly.yml's commands on this machine, two nights, with one operator and without the
    time budget."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONSISTENCY_CACHE", str(tmp_path / "cache"))
    run, diff, matrix = commands(FOLDER / "nightly.yml")
    at = run.index("--time-budget")
    small = [
        *run[:at], *run[at + 2 :], "sign", "--dtype", "float32", "--examples", "2", "-b", "cpu",
    ]  # fmt: skip
    for folder in ("yesterday", "tonight"):
        words = [folder if word == "tonight" else word for word in small]
        done = CliRunner().invoke(cli.main, words)
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(cli.main, diff)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("#")
    (tmp_path / "nights" / "1").mkdir(parents=True)
    (tmp_path / "tonight").rename(tmp_path / "nights" / "1" / "bundle-linux-cpu")
    done = CliRunner().invoke(cli.main, matrix)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "site" / "index.html").is_file()


def test_the_summary_of_a_run_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, report, *_ = commands(FOLDER / "cpu.yml")
    assert (
        CliRunner()
        .invoke(cli.main, [*run, "sign", "--dtype", "float32", "--examples", "2", "-b", "cpu"])
        .exit_code
        == 0
    )
    done = CliRunner().invoke(cli.main, report)
    assert (done.exit_code, done.output[:1]) == (0, "#")
