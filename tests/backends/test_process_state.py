"""Global state that a user's backend leaves changed: it is restored before anything else is
computed, told once as that backend's verdict, and changes no other verdict."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import Result, backends, operators
from consistency.backends.process_state import functions
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


@pytest.mark.one_in(6)
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


def test_an_autocast_block_left_open_leaves_no_cast_weights_behind() -> None:
    """torch keeps the casts of weights until the outermost block ends: one that never does would
    let a program compute with old weights."""
    layer = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    judged(f"{FILE}:AutocastLeftOn")
    with torch.autocast("cpu", torch.bfloat16):
        before = layer(x)
    with torch.no_grad():
        layer.weight += 1
    with torch.autocast("cpu", torch.bfloat16):
        after = layer(x)
    assert (after - before).min() >= 1


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


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", ["Restores", "Uses", "Compiles", "Switched"])
@pytest.mark.parametrize("suffix", ["", "+isolated"])
def test_who_restores_what_it_changes_is_accused_of_nothing(name: str, suffix: str) -> None:
    every = 4 if name == "Compiles" else 1  # compiling takes a second
    found = judged(f"{FILE}:{name}{suffix}", every)
    assert told(found) == []
    assert others(found) == undisturbed(every)
    assert {r.verdict.group for r in found} <= {"passed", "not tested"}


@pytest.mark.parametrize("tags", [False, functions.has_tags()])
def test_replaced_functions_are_found_with_and_without_versions_of_dictionaries(
    tags: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched = functions.PatchedFunctions(tags=tags)
    assert patched.restore() == []
    before: Any = {"exp": torch.exp, "abs": torch.Tensor.abs, "prod": math.prod, "add": np.add}
    monkeypatch.setattr(torch, "exp", len)
    setattr(torch.Tensor, "abs", len)  # noqa: B010 - inherited: a new name of the class
    monkeypatch.setattr(math, "prod", len)
    monkeypatch.delattr(np, "add")
    monkeypatch.setattr(torch, "a_name_of_their_own", 1, raising=False)
    assert sorted(patched.restore()) == [
        "math.prod was replaced", "np.add was removed", "torch.Tensor.abs was replaced",
        "torch.exp was replaced",
    ]  # fmt: skip
    assert [torch.exp, torch.Tensor.abs, math.prod, np.add] == list(before.values())
    monkeypatch.setattr(torch, "exp", len)
    patched.look()  # the user's own program did that
    assert patched.restore() == []


def test_a_function_of_yours_that_leaks_is_told_and_its_reference_undisturbed() -> None:
    def leaking(x: torch.Tensor) -> torch.Tensor:
        out = torch.exp(x)
        np.seterr(all="raise")
        torch.set_default_dtype(torch.float64)
        return out

    for _ in range(2):
        with pytest.raises(
            consistency.Divergence, match=r"torch.get_default_dtype\(\): .*np.geterr\(\): divide"
        ):
            consistency.assert_consistent(leaking, torch.ones(3))
    assert torch.get_default_dtype() == torch.float32
    assert np.geterr()["divide"] == "warn"
    assert consistency.assert_consistent(torch.exp, torch.tensor([0.3, 1.7, 2.9]))


def test_a_leak_ends_a_run_with_a_failure_and_no_known_divergence_excuses_it(
    tmp_path: Path,
) -> None:
    known = tmp_path / "known.yaml"
    known.write_text(
        "expectations:\n  - operator: '*'\n    backend: NumpyErrors\n    verdicts: [structure]\n"
        "    reason: all of it\n    ticket: none\n",
        encoding="utf-8",
    )
    spec = f"{FILE}:NumpyErrors"
    found = consistency.run(
        ["exp"], [spec, "numpy"], ["float32"], ["forward"], examples=3, expectations=known
    )
    told_once = [r for r in found.results if isinstance(r.detail, StateChanged)]
    assert [(r.backend, r.verdict.fails) for r in told_once] == [("NumpyErrors", True)]
    assert not any(r.verdict.fails for r in found.results if r.backend == "numpy")


def test_a_change_outside_of_judged_calls_is_a_result_of_its_own() -> None:
    """``variants`` is called by measurements, whose outcomes no verdict shows."""
    found = consistency.run(["exp"], [f"{FILE}:InItsQueries"], ["float32"], ["forward"], examples=3)
    told = "\n".join(r.explanation for r in found.results if isinstance(r.detail, StateChanged))
    for state in ("floating-point environment", "np.geterr()", "os.getcwd()"):
        assert told.count(state) == 1, told


def test_who_stays_in_the_run_s_process_can_say_so() -> None:
    backend = backends.resolve(f"{FILE}:Uses+inprocess")
    assert backend.is_foreign
    for spec, text in (
        ("cpu+inprocess", "is for backends of your own; write cpu"),
        (f"{FILE}:Uses+isolated+inprocess", "leave out either it or"),
        ("+inprocess", "leave out either it or"),
    ):
        with pytest.raises(consistency.ConsistencyError, match=text):
            backends.resolve(spec)


@pytest.mark.parametrize("spec", [
    "cpu+onednn=off", "cpu+flush_denormal=on", "cpu+matmul=medium",
    "cpu+threads=1+env:OMP_NUM_THREADS=1",
])  # fmt: skip
def test_switches_of_our_own_backends_are_no_leaks(spec: str) -> None:
    found = judged(spec)
    assert told(found) == []
    assert others(found) == undisturbed()


@pytest.mark.skipif(
    not hasattr(torch._C.DispatchKeySet, "raw_repr"), reason="this torch gives no numbers of sets"
)
def test_a_key_that_was_taken_back_leaves_nothing_to_tell() -> None:
    """Its backend's bit stays in the set, in which it says nothing any more."""
    from consistency.backends.process_state import torch_modes

    before, key = torch_modes._keys(), torch._C.DispatchKey.AutogradCPU
    torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)
    assert torch_modes._keys() != before
    torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    assert torch_modes._keys() == before
