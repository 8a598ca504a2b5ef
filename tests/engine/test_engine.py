"""The engine: what it plans, the events it yields and in which order, and that nothing a case does
ends the run."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency.core.model import Case, Result, kind
from consistency.diagnose import backend_rules, evaluation
from consistency.engine import engine, unit_runner
from consistency.engine.engine import Collect
from consistency.engine.events import (
    Event,
    Finished,
    Handler,
    Judged,
    Minimized,
    ResumeState,
    Started,
    UnitDone,
)
from consistency.errors import RecipeError, UsageError
from consistency.generate import search
from consistency.operators.declare import Operator, call
from consistency.report.summary import RunSummary
from consistency.report.terminal import exit_status


class Off(consistency.Backend):
    name = "off"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(operator, args, kwargs) * 1.001


class Absent(consistency.Backend):
    name = "absent"

    def why_unavailable(self) -> str:
        return "the cable is not plugged in"


class Particular(consistency.Backend):
    """Offers float64 only, and no gradients."""

    name = "particular"
    differentiable = False

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        return (
            "only float64"
            if dtype != "float64"
            else super().unsupported(operator, dtype, direction)
        )


def settings(
    operators: Sequence[str] = ("exp",), backends: Sequence[Any] = ("cpu", "numpy"), **changes: Any
) -> engine.RunConfig:
    changes = {"dtypes": ["float32"], "examples": 3, "exhaustive": False} | changes
    return engine.configure(list(operators), list(backends), **changes)


def events(chosen: engine.RunConfig, earlier: ResumeState | None = None) -> list[Event]:
    return list(engine.run(chosen, earlier))


def results(found: Sequence[Event]) -> list[Result]:
    return [result for event in found if isinstance(event, Judged) for result in event.results]


# --- events


def test_events_come_in_order() -> None:
    found = events(settings(["exp", "neg"], ["cpu"], dtypes=["float32", "int32"]))
    kinds = [type(event).__name__ for event in found]
    assert kinds[0] == "Started"
    assert kinds[-1] == "Finished"
    assert set(kinds[1:-1]) == {"Judged", "UnitDone"}
    started = found[0]
    assert isinstance(started, Started)
    assert (started.units, started.cases, started.unavailable) == (4, 12, {})
    done = [(event.operator, event.dtype) for event in found if isinstance(event, UnitDone)]
    assert done == [("exp", "float32"), ("exp", "int32"), ("neg", "float32"), ("neg", "int32")]
    # What is judged between two of them belongs to the second.
    group: list[tuple[str, str]] = []
    for event in found:
        if isinstance(event, Judged):
            group.append((event.case.operator, event.case.dtype))
        elif isinstance(event, UnitDone):
            assert set(group) == {(event.operator, event.dtype)}
            assert len(group) == event.cases
            group.clear()


def test_every_case_meets_every_backend_and_direction() -> None:
    for event in events(settings()):
        if isinstance(event, Judged) and event.fresh:
            keys = {(r.direction, r.backend) for r in event.results}
            assert keys == {("forward", "cpu"), ("forward", "numpy"), ("backward", "cpu")}


def test_handlers_see_every_event_in_turn() -> None:
    seen: list[tuple[str, str]] = []

    def handler(name: str) -> Handler:
        return lambda event: seen.append((name, type(event).__name__))

    engine.drive(
        settings(["neg"], ["cpu"], examples=1, directions=["forward"]), [handler("a"), handler("b")]
    )
    kinds = ["Started", "Judged", "UnitDone", "Finished"]
    assert seen == [(name, kind) for kind in kinds for name in "ab"]


def test_what_a_handler_raises_is_not_swallowed() -> None:
    def handler(event: Event) -> None:
        if isinstance(event, Judged):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        engine.drive(settings(), [handler])


def test_collect_and_tally_count_the_same() -> None:
    collect, summary = Collect(), RunSummary()

    def count(event: Event) -> None:
        if isinstance(event, Judged):
            for result in event.results:
                summary.add(result)

    engine.drive(
        settings(["exp", "neg"], ["cpu", "numpy", Absent(), Off()], shrink=False), [collect, count]
    )
    assert summary.results == len(collect.results)
    assert summary.verdicts == Counter(r.verdict.value for r in collect.results)
    assert summary.groups == Counter(r.verdict.group for r in collect.results)
    assert sum(summary.failures.cases.values()) == sum(r.verdict.fails for r in collect.results) > 0


def test_exit_status() -> None:
    def status(chosen: engine.RunConfig, *, asked: bool = True) -> int:
        summary = RunSummary()
        for result in results(events(chosen)):
            summary.add(result)
        return exit_status(summary, asked=asked)

    forward = {"directions": ["forward"], "shrink": False}
    assert status(settings(["neg"], ["cpu"], **forward)) == 0
    assert status(settings(["exp"], ["cpu", Off()], **forward)) == 1
    assert status(settings(["neg"], ["cpu", Absent()], **forward)) == 3
    assert status(settings(["neg"], ["cpu", Absent()], **forward), asked=False) == 0
    assert status(settings(["exp"], [Absent(), Off()], **forward)) == 1, "a failure weighs more"
    assert status(settings(["neg"], [Absent()], **forward), asked=False) == 3, "nothing was tested"
    assert status(settings(["neg"], [Particular()], **forward)) == 3


# --- what cannot be tested


def test_an_absent_backend_is_told_once_per_operator_dtype_and_direction() -> None:
    found = events(settings(["exp", "neg"], ["cpu", Absent()], dtypes=["float32", "float64"]))
    assert isinstance(found[0], Started)
    assert found[0].unavailable == {"absent": "the cable is not plugged in"}
    absent = [r for r in results(found) if r.backend == "absent"]
    assert Counter((r.operator, r.dtype, r.direction) for r in absent) == {
        (operator, dtype, direction): 1
        for operator in ("exp", "neg")
        for dtype in ("float32", "float64")
        for direction in ("forward", "backward")
    }
    assert {(r.verdict.value, r.explanation) for r in absent} == {
        ("unavailable", "the cable is not plugged in")
    }


def test_what_a_backend_does_not_offer_is_told_once() -> None:
    found = results(events(settings(["exp"], [Particular()], dtypes=["float32", "float64"])))
    told = Counter(
        (r.dtype, r.direction, r.verdict.value, r.explanation)
        for r in found
        if r.verdict.value == "unsupported"
    )
    assert told == {
        ("float32", "forward", "unsupported", "only float64"): 1,
        ("float32", "backward", "unsupported", "only float64"): 1,
        ("float64", "backward", "unsupported", "particular computes no gradients"): 1,
    }
    assert sum(r.verdict.tested for r in found) > 0


def test_a_question_that_raises_is_an_answer() -> None:
    class Broken(consistency.Backend):
        name = "broken"

        def why_unavailable(self) -> str:
            raise RuntimeError("no driver")

    class Refuses(consistency.Backend):
        name = "refuses"

        def unsupported(self, operator: Operator, dtype: str, direction: str) -> str:
            raise RuntimeError("no idea")

    found = results(events(settings(["neg"], [Broken(), Refuses(), "cpu"], directions=["forward"])))
    told = {r.backend: (r.verdict.value, r.explanation) for r in found if not r.verdict.tested}
    assert told["broken"] == ("unavailable", "why_unavailable() raised RuntimeError: no driver")
    assert told["refuses"] == ("unsupported", "unsupported() raised RuntimeError: no idea")
    assert any(r.verdict.passes for r in found if r.backend == "cpu")


def test_a_failure_of_the_harness_is_that_cases_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(["exp"], ["cpu", "numpy"], directions=["forward"])
    original, calls = backend_rules.judge, Counter[str]()

    def judge(*args: Any, **kwargs: Any) -> Any:
        calls["judge"] += 1
        if calls["judge"] == 1:
            raise ZeroDivisionError("a bug of ours")
        return original(*args, **kwargs)

    monkeypatch.setattr(backend_rules, "judge", judge)
    found = results(events(chosen))
    broken = [r for r in found if "the harness itself" in r.explanation]
    assert [(r.backend, r.verdict.value) for r in broken] == [
        ("cpu", "inconclusive"),
        ("numpy", "inconclusive"),
    ]
    assert broken[0].explanation == (
        "the harness itself failed to judge this case (ZeroDivisionError: a bug of ours); please "
        "report it with this case"
    )
    assert len({r.case.id for r in broken}) == 1
    assert len({r.case.id for r in found}) == 3


def test_a_case_that_cannot_be_built_is_undecidable(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(case: Case) -> Any:
        raise RecipeError("too large for here")

    monkeypatch.setattr(evaluation, "prepare", prepare)
    found = results(events(settings(["exp"], ["cpu"], directions=["forward"])))
    assert {(r.verdict.value, r.explanation) for r in found} == {
        ("inconclusive", "the case cannot be built: too large for here")
    }


def test_an_operator_that_cannot_be_drawn_costs_itself_only() -> None:
    def sample(d: Any) -> Any:
        raise KeyError("a slip")

    broken = Operator(
        name="broken", family="mine", sample=sample, function=torch.exp, dtypes=("float32",)
    )
    found = results(
        events(engine.configure([broken, "neg"], ["cpu"], ["float32"], ["forward"], examples=2))
    )
    (told,) = [r for r in found if r.operator == "broken"]
    assert (told.verdict.value, told.backend) == ("inconclusive", "cpu")
    assert told.explanation == "no case could be drawn (KeyError: 'a slip'); please report it"
    assert any(r.verdict.passes for r in found if r.operator == "neg")


def test_an_operator_without_tensors_is_still_counted() -> None:
    constant = Operator(
        name="constant", family="mine", sample=lambda d: call(), function=lambda: torch.zeros(2),
        dtypes=("float32",),
        differentiable=False, traits=frozenset({"constant"}),
    )  # fmt: skip
    found = results(events(engine.configure([constant], ["numpy"], examples=2)))
    assert [r.operator for r in found] == ["constant"]


# --- shrinking, time, earlier results


def test_a_failure_is_made_smaller() -> None:
    found = events(settings(["exp"], ["cpu", Off()], directions=["forward"]))
    (small,) = [event for event in found if isinstance(event, Minimized)]
    assert (
        kind(small.original)
        == kind(small.result)
        == ("exp", "float32", "forward", "off", "divergent")
    )
    assert small.result.case.args[0].base == ()
    assert small.original in results(found)
    kinds = [type(event).__name__ for event in found]
    assert kinds.index("Minimized") < kinds.index("UnitDone"), "while the operator is in hand"
    assert small.result in collected(found)


def collected(found: Sequence[Event]) -> list[Result]:
    collect = Collect()
    for event in found:
        collect(event)
    return collect.results


def test_at_most_two_kinds_of_failure_are_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        unit_runner, "smallest_failure", lambda suspect, *args: searched.append(kind(suspect))
    )
    others = [Off() for _ in range(3)]
    for number, other in enumerate(others):
        other.name = f"off{number}"
    events(settings(["exp"], others, directions=["forward"]))
    assert len(searched) == len(set(searched)) == unit_runner.MINIMIZED_PER_UNIT
    events(settings(["exp"], others, directions=["forward"], shrink=False))
    assert len(searched) == unit_runner.MINIMIZED_PER_UNIT


def test_where_everything_fails_the_searching_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_runner, "MINIMIZATION_SECONDS", 0.05)
    searched: list[str] = []

    def shrunk(suspect: Result, *args: Any) -> None:
        searched.append(suspect.operator)
        time.sleep(0.03)

    monkeypatch.setattr(unit_runner, "smallest_failure", shrunk)
    found = events(settings(["exp", "tanh", "sinh", "cosh"], [Off()], directions=["forward"]))
    assert len(searched) == 2
    assert {r.operator for r in results(found) if r.verdict.fails} == {
        "exp",
        "tanh",
        "sinh",
        "cosh",
    }


def test_later_turns_do_not_search_for_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        unit_runner, "smallest_failure", lambda suspect, *args: searched.append(kind(suspect))
    )
    events(settings(["exp"], [Off()], directions=["forward"], time_budget=0.5))
    assert len(searched) == len(set(searched))


def test_a_search_that_breaks_leaves_the_case_as_it_was_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def smallest(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("searching is hard")

    monkeypatch.setattr(search, "smallest", smallest)
    found = events(settings(["exp"], [Off()], directions=["forward"]))
    assert any(r.verdict.fails for r in results(found))
    assert isinstance(found[-1], Finished)


def test_a_time_budget_goes_on_with_fresh_cases_and_ends() -> None:
    found = events(settings(["exp"], ["cpu"], directions=["forward"], time_budget=1.0, examples=2))
    finished = found[-1]
    assert isinstance(finished, Finished)
    assert finished.out_of_time
    keys = [r.key for r in results(found)]
    assert len(keys) == len(set(keys)) > 2, "no case comes twice"


def test_a_failing_run_keeps_to_its_time_budget_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it, or the least, is all that the search for smaller cases gets."""
    given: list[float] = []

    def recorded(*args: Any, **kwargs: Any) -> Any:
        given.append(kwargs["seconds"])
        return original(*args, **kwargs)

    original = search.smallest
    monkeypatch.setattr(search, "smallest", recorded)
    chosen = settings(["exp", "tanh", "sinh"], [Off()], directions=["forward"], time_budget=0.2)
    (*_, finished) = events(chosen)
    assert isinstance(finished, Finished)
    assert finished.out_of_time
    assert given
    assert max(given) <= unit_runner.LEAST_MINIMIZATION_SECONDS


def test_earlier_results_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(["exp"], ["cpu", "numpy"])
    first = results(events(chosen))
    kept = {r.key: r for r in first if r.comparison is not None and r.backend == "cpu"}
    assert kept
    judged: list[tuple[str, str, str]] = []
    original = evaluation.evaluate

    def spy(*args: Any, **kwargs: Any) -> list[Result]:
        made = original(*args, **kwargs)
        judged.extend(r.key for r in made)
        return made

    monkeypatch.setattr(evaluation, "evaluate", spy)
    second = events(chosen, ResumeState(kept))
    assert not set(judged) & set(kept)
    assert {r.key: r.verdict for r in results(second)} == {r.key: r.verdict for r in first}
    taken = [
        r
        for event in second
        if isinstance(event, Judged) and not event.fresh
        for r in event.results
        if r.comparison
    ]
    assert [r.key for r in taken] == list(kept)


def test_the_shrunk_form_of_an_earlier_failure_is_shown_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = settings(["exp"], [Off()], directions=["forward"])
    first = events(chosen)
    (small,) = [event for event in first if isinstance(event, Minimized)]
    monkeypatch.setattr(
        unit_runner, "smallest_failure", lambda *args: pytest.fail("searched again")
    )
    earlier = ResumeState({r.key: r for r in results(first)}, {kind(small.result): small.result})
    assert [event for event in events(chosen, earlier) if isinstance(event, Minimized)] == [small]


# --- plans


@pytest.mark.parametrize(("changes", "text"), [
    ({"examples": 0}, "examples = 0; at least 1 case per operator and dtype is needed"),
    ({"time_budget": 0}, "time_budget = 0; give a number of seconds above 0, or None for no limit"),
    ({"time_budget": float("nan")}, "time_budget = nan; give a number of seconds above 0"),
    ({"dtypes": ["float23"]}, "unknown dtype 'float23'; did you mean float32 or float64?"),
    ({"directions": ["up"]}, "unknown direction 'up'; known: forward, backward"),
    ({"operators": ["softmax"], "dtypes": ["uint8"]},
        "nothing to test: none of the chosen operators takes uint8; softmax takes float32, "),
    ({"operators": []}, "no operator is chosen; leave operators out for all of them"),
    ({"backends": []}, "no backend is chosen; leave backends out for every one that is available"),
    ({"backends": ["cpu", "cpu"]},
        "two backends are named 'cpu', and their results could not be told apart"),
    ({"operators": ["eq"], "dtypes": None, "directions": ["backward"]},
        "nothing to test: eq has no gradients in float32"),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_a_plan_that_makes_no_sense(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings(**changes)
    assert str(caught.value).startswith(text)


def test_a_plan_says_again_what_the_user_wrote(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import consistency\nclass Mine(consistency.Backend):\n    name = 'm'\n", encoding="utf-8"
    )
    chosen = settings(backends=["cpu", f"{path}:Mine", Off()])
    assert chosen.specs == {"cpu": "cpu", "m": f"{path}:Mine"}
    assert chosen.describe()["backends"] == ["cpu", "m", "off"]


@pytest.mark.harvests
def test_inputs_do_not_depend_on_what_is_imported(tmp_path: Path) -> None:
    """Hypothesis likes constants of local modules, such as a user's own backend."""
    chosen = settings(["clamp", "sum"], ["cpu"], examples=40)
    before = [[case.line for case in search.batch(o, "float32", 40)] for o in chosen.operators]
    numbers = ", ".join(map(str, range(150, 4000, 7)))
    (tmp_path / "full_of_numbers.py").write_text(f"N = [{numbers}]", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(
        "full_of_numbers", tmp_path / "full_of_numbers.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["full_of_numbers"] = module
    try:
        spec.loader.exec_module(module)
        after = [[case.line for case in search.batch(o, "float32", 40)] for o in chosen.operators]
    finally:
        del sys.modules["full_of_numbers"]
    assert after == before


def test_another_seed_draws_other_cases_and_the_same_seed_the_same() -> None:
    chosen = settings()

    def ids(seed: int) -> set[str]:
        return {r.case.id for r in results(events(replace(chosen, seed=seed)))}

    assert ids(0) == ids(0)
    assert not ids(0) & ids(1)


@pytest.mark.parametrize("processes", [0, 1])
def test_a_run_whose_backends_are_all_absent_ends_at_once(processes: int) -> None:
    """Its time budget is not waited for: drawing cases that nobody runs would only use it up."""
    from consistency.engine.executors.processes import ProcessExecutor

    chosen = engine.configure(["neg"], backends=["cuda:9"], time_budget=60.0)
    executor = ProcessExecutor(chosen, processes) if processes else None
    events: list[Event] = []
    engine.drive(chosen, [events.append], None, executor)
    (finished,) = [e for e in events if isinstance(e, Finished)]
    assert not finished.out_of_time
    verdicts = {r.verdict.value for e in events if isinstance(e, Judged) for r in e.results}
    assert verdicts == {"unavailable"}
