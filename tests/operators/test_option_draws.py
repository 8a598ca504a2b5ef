"""Options are drawn beyond the ordinary: large windows, one number for all dimensions, one option
without its neighbor."""

from __future__ import annotations

from typing import Any

import pytest

from consistency import operators
from consistency.core.model import Case
from tests.support.drawing import draw


def drawn(name: str) -> list[Case]:
    """Some 300 cases, as many to an example as Hypothesis holds."""
    operator = operators.get(name)
    return [case for more in range(10) for case in draw(operator, "float32", 30, more)]


def largest(number: Any) -> int:
    return max(number) if isinstance(number, list) else int(number)


@pytest.mark.parametrize("name", ["avg_pool1d", "avg_pool2d", "max_pool1d", "max_pool2d"])
def test_windows(name: str) -> None:
    found = drawn(f"nn.functional.{name}")
    assert any(largest(case.args[1]) > 9 for case in found)
    implied = [case for case in found if "padding" in case.kwargs and "stride" not in case.kwargs]
    assert any(isinstance(case.kwargs["padding"], int) for case in implied)
    assert any(isinstance(case.kwargs.get("padding"), list) for case in found)


def test_rolls_along_one_dimension() -> None:
    kinds = {tuple(type(arg) for arg in case.args[1:]) for case in drawn("roll")}
    assert kinds == {(int,), (list, list), (int, int)}
