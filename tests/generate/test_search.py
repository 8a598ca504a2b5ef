"""Batches of cases from Hypothesis: reproducible, distinct, and made smaller."""

from __future__ import annotations

import math

import pytest

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate import hypothesis_settings, search

NAMES = ("add", "softmax", "index_select", "nn.functional.conv2d", "linalg.solve")


def numbers(case: Case) -> int:
    return sum(math.prod(t.base) for t in case.tensors if isinstance(t, TensorRecipe))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_reproducible_and_its_cases_are_distinct(name: str) -> None:
    operator = operators.get(name)
    first, again = (search.batch(operator, "float32", 20, 7) for _ in range(2))
    assert first == again
    assert len(first) == len({case.id for case in first}) == 20
    assert len({search.plan(case) for case in first}) >= 18
    assert search.batch(operator, "float32", 20, 8) != first


@pytest.mark.parametrize("own", [True, False], ids=["own generator", "Hypothesis's"])
def test_the_smallest_case_is_small(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this package's generator of choices, and with a version of Hypothesis that takes
    none."""
    monkeypatch.setattr(hypothesis_settings, "_generator", lambda: own)
    operator = operators.get("add")

    def large(case: Case) -> bool:
        return numbers(case) >= 10

    found = search.smallest(operator, "float32", large, examples=30)
    assert found is not None
    assert 10 <= numbers(found) <= 20 < max(map(numbers, search.batch(operator, "float32", 30)))
    assert search.smallest(operator, "float32", lambda case: False, examples=5) is None


def test_few_calls_are_drawn_for_a_case() -> None:
    """A batch needs little more than a draw for each case: repetitions cost time."""
    operator, drawn = operators.get("softmax"), 0

    class Counted:
        def __getattr__(self, name: str) -> object:
            return getattr(operator, name)

        def sample(self, source: object) -> object:
            nonlocal drawn
            drawn += 1
            return operator.sample(source)  # type: ignore[arg-type]

    cases = search.batch(Counted(), "float32", 40)  # type: ignore[arg-type]
    assert len(cases) == 40
    assert drawn <= 60
