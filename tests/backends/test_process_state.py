"""Global state that a user's backend leaves changed: it is restored before anything else is
computed, told once as that backend's verdict, and changes no other verdict."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from consistency import Result, backends, operators
from consistency.core.detail import StateChanged
from consistency.core.model import Case
from consistency.diagnose.case_runner import judge_case
from consistency.engine import engine
from consistency.judge import tolerances
from consistency.operators.declare import Operator

from ..support import leaky_backends
from ..support.leaky_backends import LEAKS

FILE = Path(leaky_backends.__file__)
OTHERS = ("cpu", "numpy")
CALLED = ("exp", "matmul", "softmax", "abs")


@functools.cache
def drawn() -> list[tuple[Operator, Case]]:
    return [
        (operator, case)
        for operator in map(operators.get, CALLED)
        for dtype in ("float32", "float64")
        for case in engine.draw(operator, dtype, 3, 0)[0][:2]
    ]


def judged(spec: str, every: int = 1) -> list[Result]:
    """Results of all cases (or ``every`` so many); the backend ``spec`` is called before the others
    in each of them."""
    chosen = backends.resolve_all([spec, *OTHERS])
    assert [backends.availability(backend) for backend in chosen] == [None] * len(chosen)
    results: list[Result] = []
    try:
        for operator, case in drawn()[::every]:
            results += judge_case(case, operator, chosen, tolerances.load())
    finally:
        chosen[0].close()
    return results


def others(results: list[Result]) -> list[str]:
    return [repr(result) for result in results if result.backend in OTHERS]


@functools.cache
def undisturbed(every: int = 1) -> list[str]:
    return others(judged("cpu+threads=1", every))


def told(results: list[Result]) -> list[str]:
    return [r.explanation for r in results if isinstance(r.detail, StateChanged)]


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_changes_no_other_verdict_and_is_told_once(name: str) -> None:
    expected = undisturbed()
    found = judged(f"{FILE}:{name}")
    assert others(found) == expected
    changes = told(found)
    assert len(changes) == 1, changes
    assert "left global state of its process changed (restored): " in changes[0]
    assert "could not" not in changes[0]
    assert {r.backend for r in found if r.verdict.fails} == {name}
    assert found[0].verdict.value == "structure"


def test_all_leaks_in_turn_change_no_other_verdict() -> None:
    expected = [verdict(r) for r in judged("cpu+threads=1") if r.backend in OTHERS]
    found = judged(f"{FILE}:AllWithin")
    assert [verdict(r) for r in found if r.backend in OTHERS] == expected


def verdict(result: Result) -> tuple[str, ...]:
    return (*result.key, result.verdict.value)


def test_in_a_worker_each_leak_is_told_once_and_changes_no_later_case() -> None:
    """One worker makes every leak in turn: each call is computed as the CPU computes it."""
    backend = backends.resolve(f"{FILE}:All+isolated")
    try:
        expected = undisturbed()
        cases = drawn() * (len(LEAKS) // len(drawn()) + 1)
        results: list[Result] = []
        for operator, case in cases:
            results += judge_case(
                case, operator, [backend, *backends.resolve_all(OTHERS)], tolerances.load(),
                ("forward",),
            )  # fmt: skip
    finally:
        backend.close()
    forward = [text for text in expected if "direction='forward'" in text]
    assert others(results)[: len(forward)] == forward
    details = [r.detail for r in results if isinstance(r.detail, StateChanged)]
    names = [name for detail in details for name in detail.states.split("; ")]
    assert len(names) == len(set(names)) >= 55
    wrong = [r for r in results if r.backend not in OTHERS and r.verdict.fails]
    assert [r for r in wrong if not isinstance(r.detail, StateChanged)] == []
    assert backend.restarts == 0


@pytest.mark.parametrize(("name", "states"), [
    ("InItsConstructor", ("torch.get_default_dtype()",)),
    ("InItsQueries", ("floating-point environment", "np.geterr()", "os.getcwd()")),
    ("InItsRun", ("torch.get_default_dtype()", "torch.exp was replaced")),
])  # fmt: skip
def test_a_leak_outside_of_the_call_itself_is_restored_and_told(
    name: str, states: tuple[str, ...]
) -> None:
    found = judged(f"{FILE}:{name}")
    assert others(found) == undisturbed()
    text = "\n".join(told(found))
    for state in states:
        assert text.count(state) == 1, text


@pytest.mark.parametrize("name", ["Restores", "Uses", "Compiles", "Switched"])
@pytest.mark.parametrize("suffix", ["", "+isolated"])
def test_who_restores_what_it_changes_is_accused_of_nothing(name: str, suffix: str) -> None:
    every = 4 if name == "Compiles" else 1  # compiling takes a second
    found = judged(f"{FILE}:{name}{suffix}", every)
    assert told(found) == []
    assert others(found) == undisturbed(every)
    assert {r.verdict.group for r in found} <= {"passed", "not tested"}


@pytest.mark.parametrize("spec", [
    "cpu+onednn=off", "cpu+flush_denormal=on", "cpu+matmul=medium",
    "cpu+threads=1+env:OMP_NUM_THREADS=1",
])  # fmt: skip
def test_switches_of_our_own_backends_are_no_leaks(spec: str) -> None:
    found = judged(spec)
    assert told(found) == []
    assert others(found) == undisturbed()
