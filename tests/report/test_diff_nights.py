"""Whole nights beside each other, made up: healthy ones show no drift, planted changes are found
where they are, and only there."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consistency.report.history.diff import (
    ComparedResult,
    GroupKey,
    ResultChange,
    difference,
)
from consistency.report.history.diff.compared_results import ResultPair
from consistency.report.history.diff.error_shifts import error_shifts
from consistency.report.history.diff.outages import split_outages
from consistency.report.history.diff.pairs import CommonResults
from consistency.report.history.diff.result_table import Names, ResultTable, read
from consistency.report.history.diff.verdict_changes import changes
from tests.support.commands import command
from tests.support.snapshots import Snapshot

Row = dict[str, Any]
MACHINE = {"host": "0123456789ab", "os": "Linux", "cpu": "Model 1"}
CORPUS = {"name": "shared", "digest": "d" * 64, "cases": 40, "replayed": 40}


def seen(
    rho: float, verdict: str = "rounding", words: str = "", origin: str = "replayed"
) -> ComparedResult:
    return ComparedResult(
        verdict,
        verdict == "divergent",
        verdict not in ("unsupported", "unavailable", "inconclusive"),
        rho,
        words,
        "",
        origin,
    )


def common(groups: Mapping[GroupKey, Sequence[ResultPair]]) -> CommonResults:
    """Pairs of results as two runs have them."""
    runs: tuple[dict[tuple[GroupKey, str], ComparedResult], ...] = ({}, {})
    for group, pairs in groups.items():
        for case, *results in pairs:
            for run, result in zip(runs, results, strict=True):
                run[group, case] = result
    names = Names()
    return CommonResults(*(ResultTable.of(names, run) for run in runs))


def night(
    seed: int, noise: float, *, operators: int = 60, cases: int = 8, shift: Callable[[GroupKey],
    float] = lambda group: 0.0,
    moved: float = 0.6,
) -> CommonResults:  # fmt: skip
    """Groups of three dtypes and two backends. Errors are log-normal, their moves heavy-tailed
    (Student's t, 1.5 degrees)."""
    random = np.random.Generator(np.random.Philox(seed))
    found: dict[GroupKey, list[ResultPair]] = {}
    for operator in range(operators):
        for dtype in ("float16", "float32", "float64"):
            for backend in ("cpu", "cuda"):
                group = (f"op{operator}", dtype, "forward", backend)
                before = 2.0 ** random.normal(-3.0, 1.0, size=cases)
                moves = noise * random.standard_t(1.5, size=cases) * (
                    random.random(cases) < moved
                ) + shift(group)
                after = before * 2.0 ** np.clip(moves, -6.0, 6.0)
                found[group] = [
                    (f"{group}{i}", seen(b), seen(a))
                    for i, (b, a) in enumerate(zip(before, after, strict=True))
                ]
    return common(found)


# --- errors that shift


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_healthy_nights_have_no_drift(noise: float) -> None:
    assert [list(error_shifts(night(seed, noise))) for seed in range(4)] == [[]] * 4


@pytest.mark.nightly
def test_nights_of_the_size_intended_have_no_false_alarm() -> None:
    """72 comparisons of 2,004 groups of 20 cases, in a third of which everything moves: one in a
    thousand may have an alarm."""
    noise = (0.0, 0.1, 1.0)
    alarms = [
        change
        for seed in range(72)
        for change in error_shifts(night(seed, noise[seed % 3], operators=334, cases=20))
    ]
    assert alarms == []


def test_a_shift_of_one_group_is_found_where_little_else_moves() -> None:
    def planted(group: GroupKey) -> float:
        return 1.0 if group == ("op7", "float32", "forward", "cuda") else 0.0

    (change,) = error_shifts(night(1, 0.1, cases=40, moved=0.02, shift=planted))
    assert (change.kind, change.group, change.groups) == (
        "error_grew",
        ("op7", "float32", "forward", "cuda"),
        1,
    )
    assert change.words.startswith("errors have grown by 2×, still within budget (p = ")


def test_a_shift_of_an_operator_is_found_in_its_dtypes_together() -> None:
    """Eight cases of a dtype are too few among noise everywhere, twenty-four of three dtypes are
    enough."""

    def planted(group: GroupKey) -> float:
        return math.log2(2.0) if group[0] == "op7" and group[3] == "cuda" else 0.0

    (change,) = error_shifts(night(2, 0.1, shift=planted))
    assert (change.group, change.groups) == (("op7", "*", "forward", "cuda"), 3)
    assert change.regression


def test_a_small_shift_of_a_dtype_is_found_in_all_operators_together() -> None:
    def planted(group: GroupKey) -> float:
        return math.log2(1.3) if group[1] == "float16" and group[3] == "cuda" else 0.0

    found = list(error_shifts(night(3, 0.3, shift=planted)))
    assert [change.group for change in found] == [("*", "float16", "forward", "cuda")]
    assert 1.25 <= 2.0 ** math.log2(found[0].after / found[0].before) < 1.6
    assert [c.kind for c in error_shifts(night(4, 0.3, shift=lambda g: -planted(g)))] == [
        "error_shrank"
    ]


def test_what_one_operator_shows_is_not_told_again_of_its_dtype() -> None:
    def planted(group: GroupKey) -> float:
        return 2.0 if group[:2] == ("op7", "float16") else 0.0

    found = list(error_shifts(night(5, 0.05, cases=40, moved=0.05, shift=planted)))
    assert {change.group for change in found} == {
        ("op7", "float16", "forward", backend) for backend in ("cpu", "cuda")
    }


def test_failures_and_known_divergences_are_no_drift() -> None:
    pairs = [(f"c{i}", seen(2.0, "known"), seen(20.0, "known")) for i in range(40)]
    pairs += [(f"d{i}", seen(2.0, "divergent"), seen(20.0, "divergent")) for i in range(40)]
    assert list(error_shifts(common({("op", "float32", "forward", "cpu"): pairs}))) == []


# --- verdicts


def of(*pairs: tuple[ComparedResult, ComparedResult]) -> list[ResultChange]:
    return list(
        changes(
            common(
                {
                    ("op", "float32", "forward", "cpu"): [
                        (f"c{i}", a, b) for i, (a, b) in enumerate(pairs)
                    ]
                }
            )
        )
    )


def test_expectations_that_end_are_told_with_their_reason(snapshot: Snapshot) -> None:
    known = seen(50.0, "known", "known (driver 31 sums in float16, ISSUE-7): 50 × budget")
    (gone,) = of((known, seen(0.3)), (known, known))
    assert gone.kind == "gone"
    snapshot(gone.words)
    assert not gone.regression
    (new,) = of((known, seen(5000.0, "divergent", "5000 × budget")))
    assert (new.kind, new.regression) == ("new", True)


def test_what_somebody_expects_now_is_neither_fixed_nor_a_regression() -> None:
    known = seen(50.0, "known", "known (ISSUE-7): 50 × budget")
    for before in (seen(50.0, "divergent"), seen(0.3)):
        (change,) = of((before, known))
        assert (change.kind, change.regression) == ("known", False)
        assert change.words == "known (ISSUE-7): 50 × budget"
    assert of((known, known)) == []


def test_cases_that_tell_nothing_any_more_are_lost_only_where_most_are() -> None:
    nothing = seen(0.0, "inconclusive", "cannot tell: all elements are equal")
    assert of((seen(0.1), nothing), (seen(0.1), seen(0.1)), (seen(0.2), seen(0.2))) == []
    (change,) = of((seen(0.1), nothing), (seen(0.1), nothing), (seen(0.2), seen(0.2)))
    assert (change.kind, change.cases) == ("untested", 2)
    (change,) = of(
        (seen(0.1), seen(0.0, "unsupported", "no kernel")),
        (seen(0.1), seen(0.1)),
        (seen(0.2), seen(0.2)),
    )
    assert (change.kind, change.cases, change.words) == ("untested", 1, "unsupported: no kernel")


def test_a_backend_that_is_gone_is_one_line(snapshot: Snapshot) -> None:
    lost = seen(0.0, "unavailable", "no CUDA device")
    groups: Mapping[GroupKey, list[ResultPair]] = {
        (f"op{i}", "float32", "forward", "cuda"): [("c", seen(0.3), lost)] for i in range(300)
    }
    (change,) = changes(common(groups))
    assert (change.kind, change.group, change.groups, change.cases) == (
        "untested",
        ("*", "*", "*", "cuda"),
        300,
        300,
    )
    snapshot(change.words)
    assert len(list(changes(common(dict(list(groups.items())[:4]))))) == 4


def lossy(
    operators: int, lost: int, *, name: str = "crash", backend: str = "cuda"
) -> dict[tuple[GroupKey, str], ComparedResult]:
    """A night of some operators × 20 cases on a backend, of which each loses a few."""
    gone = ComparedResult(name, True, True, 0.0, "killed by SIGBUS", "", "replayed")
    groups = [(f"op{i}", "float32", "forward", backend) for i in range(operators)]
    return {
        (group, f"{group[0]}-{n}"): gone if n < lost else seen(0.2)
        for group in groups
        for n in range(20)
    }


def told(
    before: dict[tuple[GroupKey, str], ComparedResult],
    after: dict[tuple[GroupKey, str], ComparedResult],
) -> list[ResultChange]:
    groups: dict[GroupKey, list[ResultPair]] = {}
    for (group, case), now in after.items():
        groups.setdefault(group, []).append((case, before[group, case], now))
    names = Names()
    found = CommonResults(ResultTable.of(names, before), ResultTable.of(names, after))
    assert {group: list(pairs) for group, pairs in found.items()} == groups
    rest, troubled = split_outages(found)
    return [*troubled, *changes(rest)]


def test_a_machine_in_trouble_is_one_line_and_no_failure_of_every_operator(
    snapshot: Snapshot,
) -> None:
    calm, rough = lossy(30, 0), lossy(30, 2)
    (change,) = told(calm, rough)
    assert (change.kind, change.group, change.cases, change.groups) == (
        "trouble",
        ("*", "*", "*", "cuda"),
        60,
        30,
    )
    assert change.regression
    snapshot(change.words)
    (change,) = told(rough, calm)
    assert (change.kind, change.cases, change.words[:27]) == (
        "fixed",
        60,
        "the machine was in trouble:",
    )
    assert told(rough, lossy(30, 2, name="timeout")) == []  # as it was
    (change,) = told(rough, lossy(30, 5))
    assert (change.kind, change.cases, change.groups) == ("trouble", 90, 30)
    assert "as some did before" in change.words


def test_operators_that_fail_beside_the_trouble_or_crash_alone_are_news_of_their_own() -> None:
    calm, rough = lossy(30, 0), lossy(30, 2)
    wrong = (("op7", "float32", "forward", "cuda"), "op7-9")
    assert [change.kind for change in told(calm, rough | {wrong: seen(40.0, "divergent")})] == [
        "trouble",
        "new",
    ]
    assert [
        change.kind for change in told(calm | {wrong: seen(0.1)}, lossy(30, 0) | lossy(9, 2))
    ] == ["new"] * 9
    on_cpu = lossy(30, 0, backend="cpu")
    assert [change.group[3] for change in told(calm | on_cpu, rough | on_cpu)] == ["cuda"]


# --- bundles


def written(folder: Path, rows: list[Row], environment: Row | None = None, **header: Any) -> Path:
    folder.mkdir()
    said = {
        "format": 2, "id": f"20261120T000000Z-{folder.name}", "label": "lab",
        "created": "2026-11-20T02:00:00+00:00",
        "machine": MACHINE, "corpus": CORPUS, "settings": {}, "seconds": 1.0, "complete": True,
    }  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(said | header), encoding="utf-8")
    default = {name: {"torch": "2.12.0", "driver": "31.0.1"} for name in ("cpu", "cuda")}
    (folder / "environment.json").write_text(json.dumps(environment or default), encoding="utf-8")
    (folder / "results.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    return folder


def row(case: str, rho: float = 0.2, backend: str = "cuda", origin: str = "replayed") -> Row:
    return {
        "operator": "matmul", "dtype": "float32", "direction": "forward", "backend": backend,
        "verdict": "rounding",
        "fails": False, "explanation": "fine", "metrics": {"rho_max": rho}, "case_id": case,
        "origin": origin,
    }  # fmt: skip


def diff(*arguments: object) -> str:
    return command("diff", *arguments).output


def test_what_was_only_explored_is_said(tmp_path: Path) -> None:
    old = written(
        tmp_path / "aaaaaaaa",
        [row("c1"), row("c2"), *(row(f"e{i}", origin="explored") for i in range(5))],
    )
    new = written(
        tmp_path / "bbbbbbbb",
        [row("c1"), *(row(f"f{i}", origin="explored") for i in range(9))],
        complete=False,
    )
    found = difference(old, new)
    assert (
        found.like,
        found.before.only,
        found.before.explored,
        found.after.only,
        found.after.explored,
    ) == (1, 6, 5, 9, 9)
    assert found.not_reached == 1
    shown = diff(old, new)
    assert (
        f"1 like-for-like results (6 only in {old}, 5 of them explored; 9 only in {new}, 9 of "
        f"them explored)"
    ) in shown
    assert f"1 result of the corpus is missing in {new}: it did not get that far" in shown


def test_machines_and_environments_are_told_once(snapshot: Snapshot, tmp_path: Path) -> None:
    newer = {
        name: {"torch": "2.13.0", "driver": "32.0.9" if name == "cuda" else "31.0.1"}
        for name in ("cpu", "cuda", "numpy")
    }
    newer["cpu"]["fingerprint"] = {"sums": "pairwise"}  # type: ignore[assignment]
    older: Any = {
        "cpu": {"torch": "2.12.0", "driver": "31.0.1", "fingerprint": {"sums": "in order"}}
    }
    older["cuda"] = {"torch": "2.12.0", "driver": "31.0.1"}
    machine = MACHINE | {"os": "Linux 7"}
    old = written(tmp_path / "aaaaaaaa", [row("c1")], older)
    new = written(
        tmp_path / "bbbbbbbb",
        [row("c1")],
        newer,
        machine=machine,
        created="2026-11-21T02:00:00+00:00",
        label="lab 2",
    )
    shown = diff(old, new).splitlines()
    snapshot(shown[0], "1")
    snapshot(shown[1:6], "2")
    rows = [json.loads(line) for line in diff(old, new, "--json").splitlines()]
    assert {
        "kind": "environment",
        "backend": "cuda",
        "name": "driver",
        "before": "31.0.1",
        "after": "32.0.9",
        "regression": False,
    } in rows
    assert "- cpu, cuda: torch `2.12.0` → `2.13.0`" in diff(old, new, "--markdown")


def test_two_copies_and_two_corpora_are_said(tmp_path: Path) -> None:
    old = written(tmp_path / "aaaaaaaa", [row("c1")])
    copy = written(tmp_path / "bbbbbbbb", [row("c1")], id="20261120T000000Z-aaaaaaaa")
    assert "both are the same run (20261120T000000Z-aaaaaaaa)" in diff(old, copy)
    other = written(
        tmp_path / "cccccccc", [row("c1"), row("c9")], corpus=CORPUS | {"digest": "e" * 64}
    )
    shown = diff(old, other)
    assert (
        "they replayed different corpora (dddddddddddd, eeeeeeeeeeee): fewer cases are in both"
        in shown
    )
    assert "are missing in" not in shown


ASKED = {
    "operators": ["matmul", "exp"],
    "backends": ["cpu", "cuda"],
    "dtypes": None,
    "directions": ["forward"],
}


@pytest.mark.parametrize(
    ("header", "regression", "why"),
    [
        ({"seconds": None}, True, "the run did not end"),
        ({"unavailable": {"cuda": "driver too old"}}, True, "driver too old"),
        ({}, True, "no results"), ({"complete": False}, False, "it did not get that far"),
        ({"settings": ASKED | {"backends": ["cpu"]}}, False, ""),
        ({"settings": ASKED | {"operators": ["exp"]}}, False, ""),
        ({"corpus": CORPUS | {"digest": "e" * 64}}, False, "different corpora"),
        ({"settings": {}}, False, "no longer exist"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("drawn", [False, True])
def test_what_a_run_was_asked_for_and_does_not_have_is_no_longer_tested(
    drawn: bool, header: Row, regression: bool, why: str, tmp_path: Path
) -> None:
    """It was killed, lost a backend or a part of its file; not where its time was up, or less was
    asked for."""
    there, gone = row("c1") | {"operator": "exp"}, [row(f"c{i}") for i in range(2, 9)]
    plan: Row = {"settings": ASKED} | ({"corpus": None} if drawn else {})
    old, rows = written(tmp_path / "aaaaaaaa", [there, *gone], **plan), [there]
    if "unavailable" in header:
        old, rows = (
            written(tmp_path / "bbbbbbbb", [there | {"backend": "cpu"}, *gone], **plan),
            [there | {"backend": "cpu"}],
        )
    new = written(tmp_path / "cccccccc", rows, **plan | header)
    if header.get("seconds", 0) is None:
        said = json.loads((new / "bundle.json").read_text(encoding="utf-8"))
        del said["seconds"]
        (new / "bundle.json").write_text(json.dumps(said), encoding="utf-8")
    shown = command("diff", old, new)
    assert shown.exit_code == regression, shown.output
    if not (drawn and "corpus" in header):
        assert why in shown.output
    if regression:
        assert "– matmul · float32 · forward · cuda   0.2 → nothing   " in shown.output
        assert "    7 of 7 cases; " in shown.output


def test_a_pooled_drift_reads_well(tmp_path: Path) -> None:
    old = written(
        tmp_path / "aaaaaaaa", [row(f"c{i}", 0.1) | {"operator": f"op{i % 30}"} for i in range(90)]
    )
    new = written(
        tmp_path / "bbbbbbbb", [row(f"c{i}", 0.15) | {"operator": f"op{i % 30}"} for i in range(90)]
    )
    shown = diff(old, new)
    assert (
        "↗ 30 operators · float32 · forward · cuda   0.1 → 0.15 × budget   errors have grown by "
        "1.5×, still within budget"
    ) in shown
    assert "    90 of 90 cases; farthest c" in shown


# --- tables


def test_of_several_results_of_a_case_the_last_counts_at_the_place_of_the_first() -> None:
    group = ("op", "float32", "forward", "cpu")
    passed = ("rounding", False, True, "", "", None)
    failed = ("divergent", True, True, "tf32-inputs", "", None)
    names = Names()
    rows = [(group, "b", 0.5, passed, ""), (group, "a", 0.1, passed, "")]
    table = ResultTable(names, [*rows, (group, "b", 9.0, failed, "wrong")])
    other = ResultTable(names, [*rows[1:], (group, "c", 0.1, passed, "")])
    assert [table.result(i).rho for i in range(len(table))] == [9.0, 0.1]
    assert table.result(0).explanation == "wrong"
    assert table.result(0).cause == "tf32-inputs"
    assert table.lacking_in(other).tolist() == [True, False]
    assert [case for case, _, _ in CommonResults(table, other)[group]] == ["a"]
    nothing = ResultTable(names)
    assert len(CommonResults(table, nothing)) == len(CommonResults(nothing, table)) == 0


def test_a_result_takes_a_few_bytes(tmp_path: Path) -> None:
    """Those that pass, whose sentences all differ; what a case is called takes most."""
    row = {
        "operator": "exp", "dtype": "float32", "direction": "forward", "backend": "cpu",
        "verdict": "rounding", "fails": False, "metrics": {"rho_max": 0.5},
    }  # fmt: skip
    with (tmp_path / "results.jsonl").open("w", encoding="utf-8") as stream:
        for number in range(20_000):
            about = {"case_id": f"exp-{number // 4}", "backend": f"cpu{number % 4}"}
            words = {"explanation": f"{number} × budget: rounding" * 10}
            stream.write(json.dumps(row | about | words) + "\n")
    tracemalloc.start()
    table = read(tmp_path, Names())
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 20_000
    assert size / len(table) < 150
