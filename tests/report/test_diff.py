"""Two runs compared: planted regressions are found, healthy noise is not, whatever is
damaged is one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from consistency.cli.main import main
from consistency.generate.bitstream import window
from consistency.report.history.diff import difference
from tests.support.commands import command
from tests.support.snapshots import Snapshot

Row = dict[str, Any]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("night") / "old"
    arguments = [
        "run", "exp", "matmul", "--dtype", "float32", "--direction", "forward", "--backend", "cpu",
        "--backend", "numpy",
    ]  # fmt: skip
    found = CliRunner().invoke(
        main, [*arguments, "--examples", "60", "--seed", "4", "--out", str(folder)]
    )
    assert found.exit_code == 0, found.output
    return folder


def changed(old: Path, tmp_path: Path, change: Callable[[int, Row], Row | None]) -> Path:
    """A copy of the bundle with every row of its results changed, or left out."""
    new = tmp_path / "new"
    shutil.copytree(old, new)
    path = new / "results.jsonl"
    rows = [
        change(i, json.loads(line))
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines())
    ]
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows if row is not None), encoding="utf-8"
    )
    header = json.loads((new / "bundle.json").read_text(encoding="utf-8"))
    header["size"] = path.stat().st_size  # a whole run with other results
    (new / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    return new


def of(row: Row, operator: str, backend: str) -> bool:
    return row["operator"] == operator and row["backend"] == backend


def fails(row: Row, rho: float, cause: str) -> Row:
    evidence = {"first": "divergent", "cause": {"name": cause, "words": cause, "share": 1.0}}
    text = f"{rho} × budget: {cause} explains 100%"
    return row | {
        "verdict": "divergent",
        "fails": True,
        "explanation": text,
        "metrics": {"rho_max": rho},
        "evidence": evidence,
    }


def times(row: Row, factor: float) -> Row:
    return row | {
        "metrics": row["metrics"] | {"rho_max": row["metrics"].get("rho_max", 0.0) * factor}
    }


def test_a_run_beside_itself_has_not_changed(old: Path) -> None:
    found = difference(old, old)
    assert found.like > 150
    assert (found.changes, found.environments, found.before.only, found.after.only) == (
        (),
        {},
        0,
        0,
    )
    shown = command("diff", old, old)
    assert shown.exit_code == 0
    assert "the environments are identical" in shown.output
    assert "no change among the results" in shown.output


def known(row: Row, rho: float, max_rho: float | None = None, flaky: bool = False) -> Row:
    entry = {
        "entry": "abc", "place": "known.yaml:3", "verdict": "divergent", "max_rho": max_rho,
        "flaky": flaky,
    }  # fmt: skip
    changes = {
        "verdict": "known",
        "fails": False,
        "explanation": "known (r)",
        "expectation": entry,
    }
    return row | changes | {"metrics": {"rho_max": rho}}


@pytest.mark.parametrize(
    ("then", "now", "kind"),
    [
        ((3.0, 12.0), None, "grown"),
        ((3.0, None), None, "grown"),
        ((3.0, None), (300.0, None), "grown"),
        ((3.0, None), (20.0, None), ""),
        ((3.0, 400.0), (300.0, 400.0), ""),  # its entry says how far it may go
        ((2e6, None), (2e9, None), ""),
    ],
)
def test_a_known_divergence_that_grows_is_a_regression(
    old: Path, tmp_path: Path, then: Any, now: Any, kind: str
) -> None:
    def chosen(i: int, row: Row) -> bool:
        return of(row, "matmul", "numpy") and i % 3 == 0 and row["verdict"] == "rounding"

    first = changed(
        old, tmp_path / "a", lambda i, row: known(row, *then) if chosen(i, row) else row
    )
    worse = (lambda row: fails(row, 300.0, "")) if now is None else (lambda row: known(row, *now))
    second = changed(old, tmp_path / "b", lambda i, row: worse(row) if chosen(i, row) else row)
    found = difference(first, second).changes
    assert [change.kind for change in found] == ([kind] if kind else [])
    if kind:
        assert found[0].regression
        assert "known divergence, 3 × budget then, 300 now (known.yaml:3: " in found[0].words
        shown = command("diff", first, second)
        assert shown.exit_code == 1
        assert "known divergence with a larger error: 1" in shown.output


def test_a_flake_that_stays_away_for_a_night_is_no_news(old: Path, tmp_path: Path) -> None:
    def chosen(i: int, row: Row) -> bool:
        return of(row, "matmul", "numpy") and i % 3 == 0 and row["verdict"] == "rounding"

    flaky = changed(
        old, tmp_path / "a", lambda i, row: known(row, 5.0, None, True) if chosen(i, row) else row
    )
    assert [c.kind for c in difference(flaky, old).changes] == []
    wild = changed(
        old, tmp_path / "b", lambda i, row: known(row, 500.0, None, True) if chosen(i, row) else row
    )
    assert [c.kind for c in difference(flaky, wild).changes] == []
    steady = changed(old, tmp_path / "c", lambda i, row: known(row, 5.0) if chosen(i, row) else row)
    assert [c.kind for c in difference(steady, old).changes] == ["gone"]


def test_a_new_failure_is_found_and_a_fixed_one_the_other_way_round(
    old: Path, tmp_path: Path
) -> None:
    def chosen(i: int, row: Row) -> bool:
        return of(row, "matmul", "numpy") and i % 3 == 0 and row["verdict"] == "rounding"

    broken = changed(
        old, tmp_path, lambda i, row: fails(row, 2300.0, "tf32-inputs") if chosen(i, row) else row
    )
    (new,) = difference(old, broken).changes
    assert (new.kind, new.group, new.after) == (
        "new",
        ("matmul", "float32", "forward", "numpy"),
        2300.0,
    )
    assert new.regression
    shown = command("diff", old, broken)
    assert shown.exit_code == 1
    assert "✗ matmul · float32 · forward · numpy   " in shown.output
    assert (
        "→ 2,300 × budget   divergent: 2300.0 × budget: tf32-inputs explains 100%" in shown.output
    )
    back = command("diff", broken, old)
    assert back.exit_code == 0
    assert "fixed: 1" in back.output
    assert "was divergent: 2300.0 × budget" in back.output


def test_another_cause_is_told_and_is_no_regression(
    snapshot: Snapshot, old: Path, tmp_path: Path
) -> None:
    one = changed(
        old,
        tmp_path / "1",
        lambda i, row: fails(row, 9.0, "one-pass") if of(row, "exp", "cpu") else row,
    )
    two = changed(
        old,
        tmp_path / "2",
        lambda i, row: fails(row, 9.0, "dropped-terms") if of(row, "exp", "cpu") else row,
    )
    (change,) = difference(one, two).changes
    assert change.kind == "changed"
    snapshot(change.words)
    assert command("diff", one, two).exit_code == 0


def noise(i: int, size: float) -> float:
    """A factor that is as often above 1 as below, from the tape."""
    bits, _ = window(1, i + 1000)
    return float(2.0 ** (size * (int(bits[0]) / 2.0**63 - 1.0)))


def test_errors_that_grow_within_the_budget_are_found(old: Path, tmp_path: Path) -> None:
    grown = changed(
        old,
        tmp_path,
        lambda i, row: times(row, 1.6 * noise(i, 0.4)) if of(row, "matmul", "cpu") else row,
    )
    (drift,) = difference(old, grown).changes
    assert (drift.kind, drift.group[0], drift.group[3]) == ("error_grew", "matmul", "cpu")
    assert "errors have grown by 1." in drift.words
    assert drift.regression
    (calm,) = difference(grown, old).changes
    assert calm.kind == "error_shrank"
    assert not calm.regression


@pytest.mark.parametrize("size", [0.05, 0.5, 2.0])
def test_noise_is_no_drift(size: float, old: Path, tmp_path: Path) -> None:
    noisy = changed(old, tmp_path, lambda i, row: times(row, noise(i, size)))
    assert difference(old, noisy).changes == ()


def test_a_small_shift_of_everything_is_nobody_s_concern(old: Path, tmp_path: Path) -> None:
    assert difference(old, changed(old, tmp_path, lambda i, row: times(row, 1.1))).changes == ()


def test_what_is_no_longer_tested_is_a_regression(
    snapshot: Snapshot, old: Path, tmp_path: Path
) -> None:
    lost = changed(
        old, tmp_path,
        lambda i, row: row | {"verdict": "unsupported",
        "explanation": "not here any more"} if of(row, "exp", "numpy") else row,
    )  # fmt: skip
    (change,) = difference(old, lost).changes
    assert change.kind == "untested"
    snapshot(change.words)
    assert command("diff", old, lost).exit_code == 1


def test_only_like_is_compared_with_like(old: Path, tmp_path: Path) -> None:
    fewer = changed(old, tmp_path, lambda i, row: None if row["operator"] == "exp" else row)
    assert {(change.kind, change.group[0]) for change in difference(old, fewer).changes} == {
        ("untested", "exp")
    }
    header = json.loads((fewer / "bundle.json").read_text(encoding="utf-8"))
    header["settings"]["operators"].remove("exp")  # it was not asked for
    (fewer / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    found = difference(old, fewer)
    assert found.before.only > 0
    assert found.after.only == 0
    assert found.changes == ()
    nothing = changed(old, tmp_path / "0", lambda i, row: None)
    assert command("diff", old, nothing).exit_code == 3


def test_environments_are_told(snapshot: Snapshot, old: Path, tmp_path: Path) -> None:
    new = changed(old, tmp_path, lambda i, row: row)
    data = json.loads((new / "environment.json").read_text(encoding="utf-8"))
    data["numpy"]["blas"] = "another `one` | <b>"
    (new / "environment.json").write_text(json.dumps(data), encoding="utf-8")
    ((name, then, now),) = difference(old, new).environments["numpy"]
    assert name == "blas"
    snapshot(now)
    assert f"numpy  blas: {then} → another" in command("diff", old, new).output


def test_as_markdown_and_as_json(old: Path, tmp_path: Path) -> None:
    evil = "<script>|`x`"
    broken = changed(
        old, tmp_path, lambda i, row: fails(row, 7.0, evil) if of(row, "exp", "cpu") else row
    )
    shown = command("diff {} {} --markdown", old, broken)
    assert shown.output.startswith("### 1 regression\n")
    assert "<script>" not in shown.output
    lines = command("diff {} {} --json", old, broken).output.splitlines()
    (change,) = map(json.loads, lines)
    assert (change["kind"], change["operator"], change["regression"]) == ("new", "exp", True)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda row: row | {"verdict": "fine"}, "'fine' is no verdict"),
        (lambda row: row | {"operator": 3}, "operator is 3; expected is a text"),
        (lambda row: {"x": 1}, "it has no 'operator'"),
        (lambda row: row | {"metrics": {"rho_max": "much"}}, "damaged"),
        (lambda row: row | {"evidence": 3}, "damaged"),
    ],
)  # fmt: skip
def test_damage_is_one_line_with_its_place(
    damage: Callable[[Row], Row], words: str, old: Path, tmp_path: Path
) -> None:
    broken = changed(old, tmp_path, lambda i, row: damage(row) if i == 2 else row)
    shown = command("diff", old, broken)
    assert shown.exit_code == 2
    assert words in shown.output
    assert "results.jsonl:3" in shown.output
    assert len(shown.output.strip().splitlines()) == 1
    assert command("diff", old, tmp_path).exit_code == 2


def test_results_that_were_cut_off_are_told_and_end_with_3(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    shutil.copytree(old, new)
    path = new / "results.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    words = f"results.jsonl was cut off: it has {len(content) // 2:,} of {len(content):,} bytes"
    for before, after in ((old, new), (new, old)):
        found = command("diff", before, after)
        assert found.exit_code == 3, found.output
        assert words in found.output
        rows = [
            json.loads(row)
            for row in command("diff", before, after, "--json").output.split("\n")
            if row
        ]
        assert [row["words"] for row in rows if row["kind"] == "cut_off"] == [words]
    assert f"not whole: {words}" in command("report", new, "--text").output
    path.unlink()
    assert "results.jsonl is missing" in command("report", new, "--text").output
