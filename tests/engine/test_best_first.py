"""Runs with a time limit: the best cases first, everything else while there is time, and what was
not begun is told."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from consistency import operators
from consistency.core.detail import NotBegun
from consistency.core.model import Case
from consistency.engine import engine
from consistency.engine.best_first import FIRST, SWEPT_FIRST
from consistency.engine.config import RunConfig
from consistency.engine.events import Judged
from consistency.engine.executors.process_count import CASES, process_count
from consistency.engine.executors.processes import ProcessExecutor
from consistency.engine.run_options import TIME_LIMIT, RunOptions
from consistency.engine.unit_cases import drawn, exhaustive_cases, shipped_cases, undrawn
from consistency.engine.work_unit import NOT_BEGUN
from consistency.generate.exhaustive import is_exhaustive
from consistency.report.run_notes import not_reached
from consistency.report.summary import RunSummary
from consistency.storage.corpus.corpus import Corpus

from ..support.commands import command


def config_of(*names: str, limit: float | None = 1e6, **more: object) -> RunConfig:
    return engine.configure(
        names, ["cpu", "numpy"], examples=2, shipped=True, time_limit=limit, **more
    )  # type: ignore[arg-type]


def never() -> bool:
    return False


def ordinary(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if not is_exhaustive(case)]


def test_the_best_cases_of_everything_come_first() -> None:
    config = config_of("exp", "matmul", "gather")
    units = list(engine.plan(config, never))
    pairs = [(unit.operator.name, unit.dtype) for unit in units]
    each = Counter(pairs)
    firsts = units[: len(each)]
    assert len({(unit.operator.name, unit.dtype) for unit in firsts}) == len(each)
    for unit in firsts:
        swept = exhaustive_cases(config, unit.operator, unit.dtype)[: unit.dtype in SWEPT_FIRST]
        begin = shipped_cases(config, unit.operator, unit.dtype)[:FIRST]
        assert unit.cases == (*begin, *swept)
    (exp,) = (u for u in firsts if (u.operator.name, u.dtype) == ("exp", "float32"))
    assert exp.cases[-1].tensors[0].base == (65536,)
    assert [unit.dtype for unit in firsts[:3]] == ["float32"] * 3


def test_without_haste_it_tests_what_a_run_without_a_limit_tests() -> None:
    config = config_of("exp", "matmul", "gather")
    tested: dict[tuple[str, str], list[str]] = {}
    parts: dict[tuple[str, str], list[tuple[int, bool]]] = {}
    for unit in engine.plan(config, never):
        key = unit.operator.name, unit.dtype
        tested.setdefault(key, []).extend(case.id for case in unit.cases)
        parts.setdefault(key, []).append((unit.part, unit.first))
    for (name, dtype), ids in tested.items():
        whole = drawn(undrawn(config, operators.get(name), dtype)).cases
        assert sorted(ids) == sorted(case.id for case in whole), (name, dtype)
        assert [first for _, first in parts[name, dtype]].count(True) == 1
        assert [part for part, _ in parts[name, dtype]] == list(range(len(parts[name, dtype])))


def test_each_is_measured_once() -> None:
    units = list(engine.plan(config_of("exp", "matmul"), never))
    measured = Counter((u.operator.name, u.dtype) for u in units if u.measured)
    assert set(measured.values()) == {1}
    assert len(measured) == len({(u.operator.name, u.dtype) for u in units})


@pytest.mark.parametrize("begun", [0, 1, 4, 30])
def test_what_is_not_begun_is_told(begun: int) -> None:
    config = config_of("exp", "matmul")
    calls = itertools.count()
    units = list(engine.plan(config, lambda: next(calls) >= begun))
    pairs = {(u.operator.name, u.dtype) for u in units}
    assert len(pairs) == sum(len(o.dtypes) for o in config.operators)
    late = [u for u in units if u.problem == NOT_BEGUN]
    assert len(late) == max(len(pairs) - begun, 0)
    assert all(not u.cases and u.first for u in late)


def test_an_operator_without_shipped_cases_is_tested_whole() -> None:
    config = engine.configure(["exp"], ["cpu"], ["float32"], examples=3, time_limit=60.0)
    (unit,) = engine.plan(config, never)
    assert len(ordinary(unit.cases)) == 3
    assert unit.measured
    assert not unit.more


@pytest.mark.parametrize("jobs", [0, 2])
def test_both_executors_tell_what_was_not_begun(jobs: int) -> None:
    config = config_of("exp", "matmul", "linalg.svd", limit=1e-3, directions=["forward"])
    collect = engine.Collect()
    engine.drive(config, [collect], executor=ProcessExecutor(config, jobs) if jobs else None)
    late = [r for r in collect.results if isinstance(r.detail, NotBegun)]
    begun = {(r.operator, r.dtype) for r in collect.results if r.comparison is not None}
    told = {(r.operator, r.dtype) for r in late}
    assert told
    assert all(r.verdict.value == "inconclusive" for r in late)
    assert told.isdisjoint(begun)
    pairs = {(o.name, dtype) for o in config.operators for dtype in o.dtypes}
    assert told | begun == pairs


@pytest.mark.nightly
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    rows = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        found = command(f"run exp linalg.det gather --jobs {jobs} --out {out}")
        assert found.exit_code == 0, found.output
        text = (out / "results.jsonl").read_text(encoding="utf-8")
        rows.append(sorted(json.dumps(json.loads(line)) for line in text.splitlines()))
    assert len(rows[0]) > 300
    assert rows[0] == rows[1]


def test_a_quick_run_takes_a_minute_unless_somebody_says_how_much() -> None:
    assert 50.0 <= TIME_LIMIT["quick"] <= 60.0
    assert RunOptions().time_limit == TIME_LIMIT["quick"]
    assert RunOptions(examples=5).time_limit is None
    assert RunOptions(time_budget=10.0).time_limit is None
    assert RunOptions(profile="default").time_limit is None


@pytest.mark.nightly
def test_the_screen_says_what_a_longer_run_would_add(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(TIME_LIMIT, "quick", 1e-3)
    found = command(f"run exp matmul -b cpu --jobs 1 --out {tmp_path / 'a'}")
    assert re.search(
        r"the best \d+ of \d+ cases fitted into 0\.001 s, \d+ operators × dtypes not begun; "
        r"all of them: --examples 2 \(some [\d.,]+ s\)",
        found.output.replace("\n", " "),
    ), found.output
    assert json.loads((tmp_path / "a" / "bundle.json").read_text("utf-8"))["complete"] is False


def test_processes_are_as_many_as_cores_memory_and_cases_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from consistency.engine.executors import process_count as module

    monkeypatch.setattr(module, "usable_cores", lambda: 3)
    whole = engine.configure(None, ["cpu"], examples=2, shipped=True)
    assert process_count(whole) in (2, 3)  # by memory
    few = engine.configure(["exp"], ["cpu"], examples=2, shipped=True)
    assert process_count(few) == 1
    large = engine.configure(["exp"], ["cpu"], ["float32"], examples=CASES * 5)
    assert process_count(large) in (2, 3)
    isolated = engine.configure(None, ["cpu+isolated"], examples=2, shipped=True)
    assert process_count(isolated) == 1


@pytest.mark.parametrize("ended_by", [{"time_limit": 60.0}, {"time_budget": 60.0}])
@pytest.mark.parametrize("shipped", [True, False])
def test_every_family_has_its_turn_before_any_has_a_second(
    ended_by: dict[str, float], shipped: bool
) -> None:
    config = engine.configure(None, ["cpu"], examples=2, shipped=shipped, **ended_by)  # type: ignore[arg-type]
    families = {o.family for o in config.operators if "float32" in o.dtypes}
    units = itertools.islice(engine.plan(config, never), len(families))
    assert {unit.operator.family for unit in units} == families


def test_a_time_budget_begins_with_one_case_of_each_and_never_repeats_one() -> None:
    config = engine.configure(
        ["exp", "matmul"], ["cpu"], ["float32", "int64"], examples=4, shipped=True, time_budget=60.0
    )
    units = list(itertools.islice(engine.plan(config, never), 14))
    assert [len(ordinary(u.cases)) for u in units[:3]] == [1, 1, 1]
    ids = [case.id for unit in units for case in unit.cases]
    assert len(set(ids)) == len(ids)
    assert max(unit.round for unit in units) >= 1


def test_a_corpus_is_replayed_in_turns_where_time_may_end_it() -> None:
    chosen = ["exp", "log", "sin", "matmul", "gather"]
    cases = [
        case
        for name in chosen
        for case in drawn(undrawn(config_of(*chosen), operators.get(name), "float32")).cases
    ]
    config = engine.configure(
        chosen, ["cpu"], corpus=Corpus("mine", tuple(cases)), explore=False, time_budget=60.0
    )
    firsts = [unit.operator.name for unit in itertools.islice(engine.plan(config, never), 5)]
    assert firsts == ["exp", "matmul", "gather", "log", "sin"]


def test_the_end_says_what_was_not_begun_by_family() -> None:
    config = config_of("exp", "log", "matmul", "linalg.svd", limit=1e-3, directions=["forward"])
    summary = RunSummary()
    for event in engine.run(config):
        if isinstance(event, Judged):
            for result in event.results:
                summary.add(result)
    (text,) = not_reached(summary)
    assert text.startswith("not begun, in operators × dtypes: unary ")
    assert not_reached(RunSummary()) == []


def test_where_no_backend_is_there_nothing_is_drawn_and_all_is_counted() -> None:
    config = config_of("exp", "matmul", "gather")
    units = list(engine.plan(config, never, testable=False))
    assert all(not unit.cases and unit.first for unit in units)
    drawn = {(unit.operator.name, unit.dtype) for unit in engine.plan(config, never)}
    assert {(unit.operator.name, unit.dtype) for unit in units} == drawn
    assert len(units) == len(drawn)
