"""Bisection: which version, which switch; environments that can be made, and that cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from consistency.cli.main import main
from consistency.core import paths
from consistency.core.model import Case, Result
from consistency.core.verdict import Verdict
from consistency.diagnose import environments
from consistency.diagnose.bisect import (
    KNOWN,
    BisectionSetup,
    Trial,
    bisect_switches,
    bisect_versions,
    try_known_switches,
)
from consistency.errors import UsageError
from tests.support.commands import command
from tests.support.snapshots import Snapshot

CASE = Case("exp", "float32", ())
EXP = json.dumps(
    {
        "operator": "exp",
        "dtype": "float32",
        "args": [{"tensor": {"base": [7], "dtype": "float32", "stop": 99}}],
        "kwargs": {},
    }
)
FAULT = """
import os
if os.environ.get("FAULT") == "yes":
    import torch
    _exp = torch.exp
    torch.exp = lambda x, *args, **kwargs: _exp(x, *args, **kwargs) * (1.0 + 2.0**-10)
"""


def tried(name: str, state: str) -> Trial:
    verdict = {
        "fails": "divergent",
        "known": "known",
        "passes": "rounding",
        "not tested": "unsupported",
    }[state]
    return Trial(name, Result(CASE, name, "forward", Verdict(verdict), "because"), "because")


@given(
    st.lists(st.sampled_from(["fails", "passes", "not tested"]), min_size=2, max_size=12),
    st.booleans(),
)
def test_the_step_between_versions_is_between_two_that_were_tested(
    states: list[str], begins: bool
) -> None:
    names = [f"2.{i}" for i in range(len(states))]
    found = bisect_versions(names, lambda name: tried(name, states[names.index(name)]))
    tested = [s for s in states if s != "not tested"]
    if len(tested) < 2 or tested[0] == tested[-1]:
        assert not found.found
        return
    assert found.found
    before, after = (
        names.index(part.split()[1]) for part in found.words.replace(" (", ", x x").split(", ")[:2]
    )
    assert {states[before], states[after]} == {"fails", "passes"}
    assert all(states[i] == "not tested" for i in range(before + 1, after))
    for i in range(before + 1, after):
        assert names[i] in found.words
    assert len(found.tries) == len({t.name for t in found.tries})


def test_few_versions_are_tried_where_there_are_many(snapshot: Snapshot) -> None:
    names = [f"2.{i}" for i in range(64)]
    found = bisect_versions(
        names, lambda name: tried(name, "passes" if names.index(name) < 41 else "fails")
    )
    snapshot(found.words)
    assert len(found.tries) <= 8


def test_what_cannot_be_compared_is_said(snapshot: Snapshot) -> None:
    assert (
        "fewer than two"
        in bisect_versions(["2.1", "2.2"], lambda name: tried(name, "not tested")).words
    )
    snapshot(bisect_versions(["2.1", "2.2"], lambda name: tried(name, "fails")).words, "1")
    known = bisect_versions(
        ["2.1", "2.2"], lambda name: tried(name, "known" if name == "2.1" else "passes")
    )
    snapshot(known.words, "2")


PIECES = ("+threads=1", "+onednn=off", "+env:A=1", "+env:B=2")


@given(st.sets(st.sampled_from(PIECES), min_size=1))
def test_every_switch_that_is_named_is_needed_and_they_are_enough(needed: set[str]) -> None:
    def judge(spec: str) -> Trial:
        return tried(spec, "passes" if all(piece in spec for piece in needed) else "fails")

    found = bisect_switches("cpu", "cpu" + "".join(PIECES), judge)
    words = (
        found.words.removeprefix("on cpu, ")
        .removesuffix(" makes it vanish")
        .removesuffix(" together make it vanish")
    )
    assert set(words.split(" and ")) == needed
    swapped = bisect_switches("cpu" + "".join(PIECES), "cpu", judge)
    assert swapped.words == found.words


def test_switches_need_a_failure_and_a_pass_on_one_device() -> None:
    both = bisect_switches("cpu", "cpu+threads=1", lambda spec: tried(spec, "fails"))
    assert not both.found
    assert "fails on cpu and fails on cpu+threads=1" in both.words
    devices = bisect_switches(
        "cuda+tf32", "cpu", lambda spec: tried(spec, "fails" if "cuda" in spec else "passes")
    )
    assert devices.found
    assert "two devices" in devices.words


def test_known_switches_are_tried_alone(snapshot: Snapshot) -> None:
    seen = []

    def judge(spec: str) -> Trial:
        seen.append(spec)
        return tried(spec, "passes" if "onednn=off" in spec else "fails")

    snapshot(try_known_switches("cpu", judge).words, "1")
    assert len(seen) == 1 + len(KNOWN["cpu"])
    snapshot(try_known_switches("cpu", lambda spec: tried(spec, "fails")).words, "2")
    with pytest.raises(UsageError, match="no switches are known of 'mps'"):
        try_known_switches("mps", judge)


@pytest.mark.parametrize("spec", [
    "cpu",
    "cuda:1+tf32",
    "cpu+onednn=off+threads=1@/a/python+env:A=b=c",
    *(f"cpu{p}" for p in KNOWN["cpu"]),
])  # fmt: skip
def test_a_spec_is_put_together_as_it_was(spec: str) -> None:
    assert BisectionSetup.of(spec).spec == spec


@pytest.mark.nightly
def test_the_switch_that_makes_a_real_failure_vanish(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAULT, encoding="utf-8")
    place = f"+env:PYTHONPATH={tmp_path}"
    result = command(
        "bisect {} --trust --over {} --over {}",
        EXP,
        f"cpu{place}+env:FAULT=yes+env:OTHER=1",
        f"cpu+threads=1{place}+env:OTHER=2",
    )
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].endswith("without +env:FAULT makes it vanish")
    nowhere = command("bisect {} --trust --over cpu --over cpu+threads=1", EXP)
    assert nowhere.exit_code == 3
    assert (
        "there is nothing to bisect: it passes on cpu and passes on cpu+threads=1" in nowhere.output
    )


def test_one_line_for_what_cannot_be_bisected() -> None:
    for arguments, words in (
        (["--over", "torch=2.4.1"], "one version is nothing to bisect"),
        (["--over", "torch=newest,2.13.0"], "'newest' is no version of torch"),
        (["--over", "torch=2.4.1,2.13.0", "--over", "cpu"], "not both"),
        (["--over", "cpu", "--over", "numpy", "--over", "cuda"], "takes two backends, not 3"),
        (
            ["--over", "torch=2.4.1@/no/such/python,2.13.0"],
            "there is no interpreter '/no/such/python'",
        ),
    ):
        result = command("bisect", EXP, "--trust", *arguments)
        assert result.exit_code == 2, result.output
        assert words in result.output
        assert "Traceback" not in result.output


def test_a_version_that_cannot_be_installed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.CACHE, str(tmp_path))
    arguments = [
        "bisect", EXP, "--trust", "--over", "torch=0.0.1,2.13.0", "--pip=--no-index",
        "--pip=--isolated",
    ]  # fmt: skip
    monkeypatch.setattr(environments, "_run", _refuses)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 3, result.output
    assert "torch 0.0.1" in result.output
    assert "not tested: torch 0.0.1 for Python" in result.output
    assert "No matching distribution" in result.output
    assert not list((tmp_path / "environments").iterdir())  # nothing that could be taken for one


def _refuses(command: list[str], title: str, *, seconds: float = 0.0) -> None:
    if "pip" in command:
        raise environments.CannotInstallError(
            f"{title} cannot be installed: No matching distribution found for torch==0.0.1"
        )
    environments.python_in(Path(command[-1])).parent.mkdir(parents=True)


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.CACHE, str(tmp_path))
    commands: list[list[str]] = []

    def made(command: list[str], title: str, *, seconds: float = 0.0) -> None:
        commands.append(command)
        if "venv" in command:
            python = environments.python_in(Path(command[-1]))
            python.parent.mkdir(parents=True)
            python.write_text("", encoding="utf-8")

    monkeypatch.setattr(environments, "_run", made)
    first = environments.made("2.6", arguments=["--index-url=X"])
    assert first == environments.made("2.6.0".removesuffix(".0")) == environments.kept("2.6")
    assert first.exists()
    assert next(c for c in commands if "pip" in c)[-3:] == ["--index-url=X", "torch==2.6", "numpy"]
    assert len(commands) == 3


def test_pip_s_own_reason_is_shown(tmp_path: Path) -> None:
    noisy = (
        "import sys; sys.stderr.write('WARNING: x\\nERROR: Could not find a version\\nERROR: "
        "No match\\n'); sys.exit(1)"
    )
    with pytest.raises(
        environments.CannotInstallError,
        match=r"torch X cannot be installed: Could not find a version$",
    ):
        environments._run([sys.executable, "-c", noisy], "torch X")
    with pytest.raises(environments.CannotInstallError, match="took longer than 0 s"):
        environments._run(
            [sys.executable, "-c", "import time; time.sleep(60)"], "torch X", seconds=0.2
        )


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "consistency", "bisect", "--help"]
    shown = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "200"},
        check=True,
    )
    assert "consistency bisect CASE --over torch=2.4.1,2.6.0" in shown.stdout
