"""Of a batch whose operator takes a number, two cases differ in that number only."""

from __future__ import annotations

from dataclasses import replace

import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.generate.scalar_pairs import with_scalar_pair
from consistency.generate.search import batch

X = TensorRecipe((4,), "float32", ("uniform", -1.0, 1.0), 40)
BOUND = operators.get("clamp_min")


def bounded(*bounds: object) -> list[Case]:
    return [
        Case("clamp_min", "float32", (replace(X, stop=40 + i), b)) for i, b in enumerate(bounds)
    ]


def test_the_second_case_takes_half_of_the_number() -> None:
    cases = bounded(X, 0.75, X, X)
    *first, last = with_scalar_pair(BOUND, cases)
    assert first == cases[:-1]
    assert last == replace(cases[1], args=(cases[1].args[0], 0.375))


def test_a_case_that_is_kept_stays() -> None:
    cases = bounded(X, 0.75, X, X)
    assert with_scalar_pair(BOUND, cases, cases[-1:])[-1] == cases[-1]


def test_orders_sizes_and_few_cases_stay_as_they_are() -> None:
    for cases in (bounded(2.0, 3, X, X), bounded(0.75, X), bounded(True, 1.0 / 128, X, X)):
        assert with_scalar_pair(BOUND, cases) == cases
    random = operators.get("bernoulli")
    assert with_scalar_pair(random, bounded(0.75, X, X, X)) == bounded(0.75, X, X, X)


def test_a_batch_has_such_a_pair_and_both_run() -> None:
    cases = batch(BOUND, "float32", 5)
    bounds: dict[str, set[float]] = {}
    for case in cases:
        if isinstance(case.args[1], float):
            bounds.setdefault(repr(case.args[0]), set()).add(case.args[1])
        arguments = prepare(case).build()
        assert isinstance(BOUND(*arguments.args, **arguments.kwargs), torch.Tensor)
    assert any(len(chosen) == 2 for chosen in bounds.values())
