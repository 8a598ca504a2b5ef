"""Calibration: what healthy results need is computed right, what is too loose is listed, and what
is proposed then passes."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import consistency
from consistency.cli.main import main
from consistency.core.model import Comparison, ElementGroup, Measured, Worst
from consistency.engine import calibrate, engine
from consistency.engine.calibrate.faults import planted, rounded
from consistency.engine.calibrate.needs import Demands, demands
from consistency.engine.calibrate.propose import ToleranceChange, _plain, _up
from consistency.generate.materialize import case_of, prepare
from consistency.judge import pareto, tolerances
from consistency.judge.judge import judge
from consistency.judge.rule_values import Policy, Rule
from consistency.operators import get
from consistency.reference import Reference
from consistency.report import calibration as report
from tests.support.snapshots import Snapshot

SOME = st.floats(1e-3, 10.0)
CORNERS = st.lists(st.tuples(SOME, SOME), min_size=1, max_size=12)
PAIRS = st.lists(st.tuples(SOME, SOME), max_size=4)
BOUND = st.floats(0.5, 100.0)
LESS = 1.0 - 1e-6

# A file of its own: nothing here depends on the numbers of the packaged one.
FILE = """
extends: packaged
operators:
  exp:
    any: {{c: {c}, lambda: {lam}, source: test}}
    backward:
      any: {{c: 4, lambda: 4, source: test}}
"""


# What is needed.


@given(CORNERS, BOUND)
def test_the_smallest_lambda_passes_and_a_smaller_one_does_not(
    pareto_points: list[tuple[float, float]], c: float
) -> None:
    lam = Demands(pareto_points).lam(c)
    assert pareto.rho(tuple(pareto_points), c, lam)[0] <= 1.0
    if lam > 0.0:
        assert pareto.rho(tuple(pareto_points), c, lam * LESS)[0] > 1.0
        assert not Demands(pareto_points).met(c, lam * LESS)
    assert Demands(pareto_points).met(c, lam)


@given(CORNERS, st.floats(0.0, 100.0))
def test_the_smallest_c_passes_and_a_smaller_one_does_not(
    pareto_points: list[tuple[float, float]], lam: float
) -> None:
    c = Demands(pareto_points).c(lam)
    assert c >= 0.5
    assert pareto.rho(tuple(pareto_points), c, lam)[0] <= 1.0
    if c > 0.5:
        assert pareto.rho(tuple(pareto_points), c * LESS, lam)[0] > 1.0


@given(CORNERS, BOUND, st.floats(0.0, 100.0))
def test_the_factor_scales_both(
    pareto_points: list[tuple[float, float]], c: float, lam: float
) -> None:
    wanted = Demands(pareto_points)
    factor = wanted.factor(c, lam)
    if math.isfinite(factor):
        assert wanted.met(factor * c * (1.0 + 1e-9), factor * lam * (1.0 + 1e-9))
        if factor > 0.0:
            assert not wanted.met(factor * c * LESS, factor * lam * LESS)
    assert pareto.rho(tuple(pareto_points), c, lam)[0] > 1.0 or factor <= 1.0


@given(CORNERS, PAIRS, BOUND)
def test_the_judge_agrees(
    pareto_points: list[tuple[float, float]], pairs: list[tuple[float, float]], c: float
) -> None:
    worst = (Worst((0,), 1.0, 2.0),)
    element_groups = [
        ElementGroup(
            None,
            1 / min(a for a, _ in pareto_points),
            1 / min(b for _, b in pareto_points),
            1.0,
            tuple(pareto_points),
            worst,
        )
    ]
    element_groups += [ElementGroup(None, ulp, scaled, 1.0, (), worst) for ulp, scaled in pairs]
    comparison = Comparison(
        "ok", (Measured("out/0", "float32", (9,), 9, tuple(element_groups), differing=9),)
    )
    rule = Rule(c, 1.0)
    found = demands(comparison, rule, Policy())
    for enough in (replace(rule, lam=found.lam(c)), replace(rule, c=found.c(1.0))):
        assert judge(comparison, None, enough, Policy()).metrics["rho_max"] <= 1.0
    lam = found.lam(c)
    if lam > 0.0:
        assert (
            judge(comparison, None, replace(rule, lam=lam * LESS), Policy()).metrics["rho_max"]
            > 1.0
        )


@given(st.integers(0, 2**32), BOUND, st.floats(0.0, 100.0))
def test_what_is_dropped_demanded_nothing(seed: int, c: float, lam: float) -> None:
    random = Random(seed)
    everything = Demands(
        [(random.uniform(0.001, 10.0), random.uniform(0.001, 10.0)) for _ in range(300)]
    )
    kept = Demands()
    kept.add(everything)
    assert len(kept.pareto_points) < 100
    assert (kept.c(lam), kept.lam(c)) == (everything.c(lam), everything.lam(c))


def test_without_s_only_c_helps() -> None:
    assert Demands([(0.1, 0.0)]).lam(2.0) == math.inf
    assert Demands([(0.1, 0.0)]).c(1e9) == pytest.approx(10.0)
    assert (Demands().c(0.0), Demands().lam(0.5), Demands().factor(1.0, 1.0)) == (0.5, 0.0, 0.0)


def test_what_the_rule_itself_does_not_judge_demands_nothing() -> None:
    element_group = ElementGroup(None, 8.0, 4.0, 1e-3, pareto_front=((0.125, 0.25),), flushed=())
    comparison = Comparison("ok", (Measured("out/0", "float32", (9,), 9, (element_group,)),))
    assert demands(comparison, Rule(1.0, 1.0), Policy())
    assert not demands(comparison, Rule(1.0, 1.0, absolute=1e-2), Policy())
    assert not demands(comparison, Rule(1.0, 1.0), Policy(flush_subnormals=True))
    exact = Comparison("ok", (replace(comparison.outputs[0], exact=True),))
    assert not demands(exact, Rule(1.0, 1.0), Policy())


# Faults.


def test_inputs_rounded_to_so_many_bits() -> None:
    x = torch.tensor(
        [
            1.0,
            1.0 + 2.0**-10,
            1.0 + 2.0**-11,
            1.0 + 3 * 2.0**-11,
            -3e-40,
            1e38,
            0.0,
            math.inf,
            math.nan,
        ],
        dtype=torch.float64,
    )
    near = rounded(x, 11)
    assert near[:4].tolist() == [1.0, 1.0 + 2.0**-10, 1.0, 1.0 + 2 * 2.0**-10]
    assert near[4:6].tolist() == pytest.approx([-3e-40, 1e38], rel=2.0**-11)
    assert near[6].item() == 0.0
    assert near[7].item() == math.inf
    assert near[8].isnan()


def test_every_fault_is_as_large_as_it_says() -> None:
    x = torch.linspace(0.3, 2.9, 300)
    reference = Reference(get("exp"), prepare(case_of("exp", "float32", (x,), {})), "forward")
    healthy = consistency.Backend().run(reference.operator, reference.materials)
    found = dict(planted(healthy, reference, consistency.Backend()))
    assert tuple(found) == calibrate.FAULTS
    assert healthy.outputs[0].tensor is not None
    ulp = 2.0 ** (torch.frexp(healthy.outputs[0].tensor).exponent - 24).double()
    moved = {}
    for name, outcome in found.items():
        assert outcome.outputs[0].tensor is not None
        moved[name] = (
            outcome.outputs[0].tensor.double() - healthy.outputs[0].tensor.double()
        ) / ulp
    assert moved["16 ulp in one"].count_nonzero() == 1
    assert moved["16 ulp in one"].abs().max() == 16.0
    assert set(moved["16 ulp in all"].tolist()) == {-16.0, 16.0}
    assert 1_000 < moved["TF32"].abs().max() < 20_000
    assert 8_000 < moved["bfloat16"].abs().max() < 200_000
    assert moved["bias"].min() > 0.0
    assert set(moved["truncated"].tolist()) <= {-1.0, 0.0}


def test_faults_that_cannot_show_are_left_out() -> None:
    whole = torch.arange(1.0, 30.0)
    reference = Reference(get("neg"), prepare(case_of("neg", "float32", (whole,), {})), "forward")
    healthy = consistency.Backend().run(reference.operator, reference.materials)
    names = [name for name, _ in planted(healthy, reference, consistency.Backend())]
    assert "TF32" not in names  # few bits to begin with
    assert "truncated" not in names
    reference = Reference(
        get("argmax"), prepare(case_of("argmax", "float32", (whole,), {})), "forward"
    )
    healthy = consistency.Backend().run(reference.operator, reference.materials)
    assert list(planted(healthy, reference, consistency.Backend())) == []


# The whole of it.


def calibrated(
    path: Path | None, backends: Sequence[str] = ("cpu",), operator: str = "exp", **options: object
) -> tuple[calibrate.Calibration, list[ToleranceChange]]:
    chosen = engine.configure(
        [operator], backends, ["float32"], examples=12, tolerances=path, **options
    )  # type: ignore[arg-type]
    plan = calibrate.CalibrationPlan(chosen, (0, 1))
    found = calibrate.Calibration()
    for _, observed in calibrate.observations(plan):
        found.add(observed)
    return found, calibrate.changes(found, chosen.tolerances, "a test")


def written(folder: Path, c: float, lam: float) -> Path:
    path = folder / "mine.yaml"
    path.write_text(FILE.format(c=c, lam=lam), encoding="utf-8")
    return path


def proposed(folder: Path, changes: Sequence[ToleranceChange]) -> tolerances.Tolerances:
    path = folder / "proposal.yaml"
    path.write_text(calibrate.proposal(changes, ["Of a test."]), encoding="utf-8")
    return tolerances.load(path)


def test_an_entry_far_too_loose_is_listed_and_a_smaller_one_proposed(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    found, changes = calibrated(written(tmp_path, 5000, 0), directions=["forward"])
    (entry,) = found.entries()
    assert entry.place.startswith("mine.yaml:5")
    assert entry.margin > 1000
    assert entry.shares["16 ulp in all"].value == 0.0
    assert set(entry.shares["16 ulp in all"].hidden_by) == {"c"}
    lines = list(report.inadequate(found.entries()))
    snapshot(lines[0])
    assert (
        lines[1]
        .strip()
        .startswith(f"{entry.place}  1 group; c is too large; healthy results leave room")
    )
    assert lines[2].strip().startswith("needed of the budget: exp 0.00")
    assert lines[3].strip().startswith("exp · float32 · forward · cpu   c 5000, lambda 0   margin ")
    forward = next(one for one in changes if one.direction == "forward")
    assert (forward.reason, forward.backend, forward.noticed) == ("too loose", "", (0.0, 1.0))
    assert 0.5 <= forward.c <= 4.0
    assert forward.lam == 0.0
    rule = proposed(tmp_path, changes).rule("exp", "float32", family="unary")
    assert (rule.c, rule.lam) == (forward.c, forward.lam)
    assert rule.source.startswith("calibrated: max over ")
    assert rule.source.endswith("slack 2x")


def test_gradients_keep_what_they_had(tmp_path: Path) -> None:
    loaded = tolerances.load(written(tmp_path, 5000, 0))
    before = loaded.rule("exp", "float32", family="unary", direction="backward")
    _, changes = calibrated(tmp_path / "mine.yaml", directions=["forward"])
    assert {one.reason for one in changes} == {"too loose", "as before"}
    after = proposed(tmp_path, changes).rule("exp", "float32", family="unary", direction="backward")
    assert (after.c, after.lam) == (before.c, before.lam)


def test_an_entry_too_tight_gives_a_proposal_that_then_passes(tmp_path: Path) -> None:
    found, changes = calibrated(written(tmp_path, 0.5, 0), directions=["forward"])
    (group,) = found.too_tight()
    assert group.rho > 1.0
    assert group.margin < 1.0
    assert "sufficient: c " in "\n".join(report.too_tight(found.too_tight()))
    (forward,) = (one for one in changes if one.direction == "forward")
    assert forward.reason == "too tight"
    loaded = proposed(tmp_path, changes)
    run = consistency.run(
        ["exp"], ["cpu"], ["float32"], ["forward"], examples=12, tolerances=loaded
    )
    assert not run.failures
    assert group.worst == forward.worst
    assert forward.worst in loaded.rule("exp", "float32", family="unary").source


def test_what_passes_only_just_is_listed(snapshot: Snapshot, tmp_path: Path) -> None:
    found, _ = calibrated(written(tmp_path, 1, 0), directions=["forward"])
    (group,) = found.groups.values()
    needed = group.needed[0]
    found, _ = calibrated(written(tmp_path, 1.01 * needed, 0), directions=["forward"])
    assert not found.too_tight()
    lines = list(report.nearly(found.nearly()))
    snapshot(lines[0])
    assert "margin 1.01" in lines[1]


BACKEND = """
import consistency

class Rough(consistency.Backend):
    name = "rough"
    differentiable = False
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * (1 + 2.0 ** -19)

class Wrong(Rough):
    name = "wrong"
    def call(self, operator, args, kwargs):
        return consistency.Backend.call(self, operator, args, kwargs)[None]
"""


def test_what_one_backend_needs_is_proposed_for_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("user.py").write_text(BACKEND, encoding="utf-8")
    found, changes = calibrated(
        written(tmp_path, 2, 0), ["cpu", "user.py:Rough"], directions=["forward"]
    )
    assert {group.kind.backend for group in found.too_tight()} == {"rough"}
    assert {one.backend for one in changes} == {"rough"}
    loaded = proposed(tmp_path, changes)
    assert loaded.rule("exp", "float32", family="unary", backend="rough").c > 30
    assert loaded.rule("exp", "float32", family="unary").c < 10
    assert not consistency.run(
        ["exp"], ["user.py:Rough"], ["float32"], ["forward"], examples=12, tolerances=loaded
    ).failures


def test_a_backend_that_alone_needs_loose_numbers_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("user.py").write_text(BACKEND, encoding="utf-8")
    found, changes = calibrated(
        written(tmp_path, 64, 0), ["cpu", "user.py:Rough"], directions=["forward"]
    )
    assert not found.too_tight()
    assert {(one.direction, one.backend, one.reason) for one in changes} == {
        ("forward", "", "too loose"), ("forward", "rough", "as before"), ("backward", "",
        "as before"),
    }  # fmt: skip
    loaded = proposed(tmp_path, changes)
    assert loaded.rule("exp", "float32", family="unary", backend="rough").c == 64
    assert loaded.rule("exp", "float32", family="unary").c < 10


def test_what_no_number_can_mend_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("user.py").write_text(BACKEND, encoding="utf-8")
    found, changes = calibrated(None, ["user.py:Wrong"], directions=["forward"])
    assert not found.too_tight()
    assert not changes
    assert "structure: out/0 has shape [1, " in "\n".join(report.problems(found))


def test_an_expected_divergence_says_nothing_of_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("user.py").write_text(BACKEND, encoding="utf-8")
    path = written(tmp_path, 2, 0)
    expectation = (
        "expectations:\n  - {operator: exp, backend: rough, verdicts: [divergent], reason: known}\n"
    )
    path.write_text(path.read_text(encoding="utf-8") + expectation, encoding="utf-8")
    found, _ = calibrated(path, ["user.py:Rough"], directions=["forward"])
    assert not found.too_tight()
    assert not list(found.problems())


def test_numbers_as_yaml_reads_them() -> None:
    assert [_plain(x) for x in (0.0, 0.5, 12.0, 0.00001, 262144.0, 1e15)] == [
        "0",
        "0.5",
        "12",
        "0.00001",
        "262144",
        "1000000000000000",
    ]
    assert [_up(x) for x in (0.0, 1.0, 1.01, 0.01234, 4321.0)] == [0.0, 1.0, 2.0, 0.015625, 8192.0]


# The command.


def cli(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["calibrate", *arguments])


@pytest.mark.nightly
def test_as_a_process(tmp_path: Path) -> None:
    tight = written(tmp_path, 0.5, 0)
    before = Path(tolerances.__file__).parents[2].joinpath("tolerances.yaml").read_bytes()
    asked = (
        "exp --backend cpu --dtype float32 --examples 8 --seeds 0,1 --proposal p.yaml --json "
        "c.jsonl --stand-in directml"
    )
    run = subprocess.run(
        [sys.executable, "-m", "consistency", "calibrate", *asked.split(), "--tolerances",
        str(tight)],
        capture_output=True, text=True, cwd=tmp_path, timeout=120, encoding="utf-8",
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[0].startswith("1 operator × dtype, seeds 0,1 of 8 cases, torch ")
    assert any(line.startswith("entry ") and line.endswith("operators") for line in lines)
    assert "written to p.yaml; try it: consistency run --tolerances p.yaml" in run.stdout
    assert re.search(
        r"^Noticed of all planted faults: 16 ulp in one \d+%, 16 ulp in all \d+%, TF32 \d+%",
        run.stdout,
        re.MULTILINE,
    )
    assert "\x1b" not in run.stdout
    rows = [
        json.loads(line) for line in (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert {(row["operator"], row["backend"], row["direction"],
    row["stand_in"]) for row in rows} == {
        ("exp", "cpu", "forward", False), ("exp", "cpu", "backward", False),
        ("exp", "directml", "forward", True), ("exp", "directml", "backward", True),
    }  # fmt: skip
    assert tolerances.load(tmp_path / "p.yaml").rule("exp", "float32").c > 0.5
    assert Path(tolerances.__file__).parents[2].joinpath("tolerances.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["expp"], "expp"),
        (["exp", "--seeds", "one"], "'one' is not a list of whole numbers; write 0,1,2"),
        (
            ["exp", "--dtype", "int32"],
            (
                "nothing to calibrate: integers and booleans are compared exactly; choose a "
                "floating dtype"
            ),
        ),
        (
            ["exp", "--proposal", "no/such/folder/p.yaml"],
            "cannot write no/such/folder/p.yaml: No such file or directory",
        ),
        (["exp", "--tolerances", "absent.yaml"], "absent.yaml  cannot be read"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_help_teaches() -> None:
    text = " ".join(cli("--help").output.split())
    for words in (
        "consistency calibrate matmul",
        "--stand-in",
        "--proposal",
        "never into tolerances.yaml itself",
        "docs/calibration.md",
    ):
        assert words in text
