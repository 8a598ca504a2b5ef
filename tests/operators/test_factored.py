"""Wrong ranks and wrong solutions by triangles are noticed; torch's own pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.operators.declare import Operator
from tests.support.running import failures, noticed

NAMES = ["linalg.matrix_rank", "triangular_solve"]


def one_element(x: Any) -> Any:
    """The same but for 1% of the first element, or one more."""
    if isinstance(x, tuple):
        return *x[:-1], one_element(x[-1])
    moved = x.contiguous().clone()
    flat = moved.view(-1)
    if flat.numel():
        flat[0] = flat[0] * 1.01 if flat.is_floating_point() else flat[0] + 1
    return moved


class Changed(consistency.Backend):
    name = "changed"

    def __init__(self, ignored: str = "", change: Callable[[Any], Any] = lambda x: x) -> None:
        self.ignored, self.change = ignored, change

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        kept = {name: value for name, value in kwargs.items() if name != self.ignored}
        return self.change(super().call(operator, args, kept))


class Sloped(consistency.Backend):
    name = "sloped"

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        for leaf in args:
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(lambda gradient: gradient * 1.01)
        return super().call(operator, args, kwargs)


@pytest.mark.parametrize("name", NAMES)
def test_torch_passes(name: str) -> None:
    assert not failures([name], ["cpu"], ["float32"], ["forward", "backward"], 25)


@pytest.mark.parametrize("name", NAMES)
def test_one_wrong_element_is_noticed(name: str) -> None:
    assert noticed([name], [Changed(change=one_element)], ["float32"], ["forward"], 40)


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("triangular_solve", "transpose"),
        ("triangular_solve", "upper"),
        ("triangular_solve", "unitriangular"),
        ("linalg.matrix_rank", "rtol"),
        ("linalg.matrix_rank", "atol"),
    ],
)
def test_an_ignored_argument_is_noticed(name: str, ignored: str) -> None:
    assert noticed([name], [Changed(ignored)], ["float32"], ["forward"], 60)


def test_a_wrong_gradient_is_noticed() -> None:
    assert noticed(["triangular_solve"], [Sloped()], ["float32"], ["backward"], 40)
