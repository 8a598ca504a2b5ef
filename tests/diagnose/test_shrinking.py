"""Planted faults are found, and shrink to a case that a person can compute by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import operators
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe, tensors
from consistency.engine import engine, events, unit_runner
from consistency.generate import search
from consistency.generate.materialize import prepare

Wrong = Callable[..., torch.Tensor]


class Faulty(consistency.Backend):
    """The CPU, with a fault planted behind it: ``wrong(result, *args)``."""

    name = "faulty"

    def __init__(self, wrong: Wrong) -> None:
        self.wrong = wrong

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.wrong(super().call(operator, args, kwargs), *args)


def for_some_lengths(result: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return result * 1.01 if a.shape[-1] % 8 == 3 else result


def of_a_transposed_view(result: torch.Tensor, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    transposed = x.ndim > 1 and min(x.shape[-2:]) > 1 and x.stride(-1) > x.stride(-2)
    return result * 1.01 if transposed else result


def of_large_numbers(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 88, result * 1.01, result)


def of_a_narrow_interval(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where((x > 88) & (x < 88.7), result * 1.01, result)


def minimal(operator: str, wrong: Wrong, seed: int) -> Case:
    """What the first failure of a run is shrunk to."""
    results = consistency.run(
        [operator], [Faulty(wrong)], ["float32"], ["forward"], examples=100, seed=seed
    ).results
    failures = [result for result in results if result.verdict.fails]
    assert failures, "the planted fault was not found"
    return failures[-1].case  # the shrunk form comes after all cases of the batch


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """How small a case becomes is the question here, not how fast on a busy machine."""
    monkeypatch.setattr(unit_runner, "SHRINK_SECONDS", 40.0)


@pytest.mark.one_in(32)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("operator", "wrong", "numbers", "nonzero"),
    [
        ("matmul", for_some_lengths, 6, 2),
        ("sum", of_a_transposed_view, 4, 1),
        ("exp", of_large_numbers, 1, 1),
        ("exp", of_a_narrow_interval, 1, 1),
    ],
    ids=[
        "matmul for K % 8 == 3",
        "sum of a transposed view",
        "exp for x > 88",
        "exp for 88 < x < 88.7",
    ],
)
def test_a_fault_shrinks_to_a_few_numbers(
    operator: str, wrong: Wrong, numbers: int, nonzero: int, seed: int
) -> None:
    bases = prepare(minimal(operator, wrong, seed)).bases
    assert sum(base.size for base in bases) <= numbers
    assert sum(int(np.count_nonzero(base)) for base in bases) <= nonzero


def smallest(operator: str, predicate: Callable[[Case], bool], **options: Any) -> Case | None:
    return search.smallest(operators.get(operator), "float32", predicate, **options)


def test_a_case_shrinks_to_plain_tensors_at_the_beginning_of_the_tape() -> None:
    case = smallest("add", lambda case: True)
    assert case is not None
    for tensor in tensors(case.args):
        assert tensor == TensorRecipe((), "float32", ("uniform", -1.0, 1.0), 0)


def test_nothing_found_is_none() -> None:
    assert smallest("exp", lambda case: False, examples=10) is None


def test_every_case_is_tried_once() -> None:
    """A flaky backend must not contradict itself on the way."""
    tried: list[str] = []

    def longer(case: Case) -> bool:
        tried.append(case.digest)
        return prepare(case).bases[0].size > 5

    case = smallest("exp", longer)
    assert case is not None
    assert prepare(case).bases[0].size <= 7
    assert len(tried) == len(set(tried))


def test_an_unreliable_predicate_does_not_break_the_search() -> None:
    answers = iter([False] * 5 + [True, False] * 1000)
    assert smallest("exp", lambda case: next(answers)) is not None


def test_the_search_ends_in_time() -> None:
    tried: list[Case] = []

    def slow(case: Case) -> bool:
        tried.append(case)
        time.sleep(0.05)
        return prepare(case).bases[0].size > 5

    assert smallest("exp", slow, seconds=0.5) is not None
    assert len(tried) <= 2 * 0.5 / 0.05


def test_a_shrunk_result_fails_in_the_same_way() -> None:
    """One bug must not hide behind another: NaN for long tensors, small errors for all."""

    def two_bugs(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(result, torch.nan) if x.numel() > 8 else result * 1.01

    failing = consistency.run(
        ["exp"], [Faulty(two_bugs)], ["float32"], ["forward"], examples=30
    ).failures
    by_verdict: dict[str, list[Result]] = {}
    for result in failing:
        by_verdict.setdefault(result.verdict.value, []).append(result)
    sizes = {
        verdict: min(sum(t.numel() for t in prepare(r.case).build().tensors) for r in found)
        for verdict, found in by_verdict.items()
    }
    assert sizes == {"special-values": 9, "divergent": 1}


def test_shrinking_can_be_left_out() -> None:
    chosen = engine.configure(
        ["exp"], [Faulty(of_large_numbers)], ["float32"], ["forward"], examples=20, shrink=False
    )
    assert not any(isinstance(event, events.Minimized) for event in engine.run(chosen))


def test_batches_repeat_themselves() -> None:
    exp = operators.get("exp")
    assert search.batch(exp, "float32", 25, seed=3) == search.batch(exp, "float32", 25, seed=3)
    assert search.batch(exp, "float32", 25, seed=3) != search.batch(exp, "float32", 25, seed=4)
    digests = [case.digest for case in search.batch(exp, "float32", 60)]
    assert len(digests) == len(set(digests)) == 60
