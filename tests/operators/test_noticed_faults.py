"""One wrong element, an ignored argument and a wrong gradient of operators that no other test
names are noticed; torch's own results pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.operators.declare import Operator
from tests.support.running import failures, noticed

N = "nn.functional."
NAMES = [
    "linalg.matrix_rank", "triangular_solve", "renorm", "renorm_", "renorm.out", "histogram",
    "nonzero_static", f"{N}fractional_max_pool2d", f"{N}fractional_max_pool3d",
    f"{N}triplet_margin_with_distance_loss", "cov", "gradient",
]  # fmt: skip
WITH_GRADIENTS = [
    "triangular_solve", "renorm", "renorm_", f"{N}fractional_max_pool2d",
    f"{N}fractional_max_pool3d", f"{N}triplet_margin_with_distance_loss", "cov", "gradient",
]  # fmt: skip


def one_element(x: Any) -> Any:
    """The same but for 1% of the first element, or one more."""
    if isinstance(x, tuple):
        return one_element(x[0]), *x[1:]
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


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        ("triangular_solve", "transpose"),
        ("triangular_solve", "upper"),
        ("triangular_solve", "unitriangular"),
        ("linalg.matrix_rank", "rtol"),
        ("linalg.matrix_rank", "atol"),
        ("cov", "correction"),
        ("cov", "fweights"),
        ("cov", "aweights"),
        ("gradient", "spacing"),
        ("gradient", "edge_order"),
        ("histogram", "range"),
        ("histogram", "weight"),
        ("histogram", "density"),
        ("nonzero_static", "fill_value"),
        (f"{N}triplet_margin_with_distance_loss", "swap"),
        (f"{N}triplet_margin_with_distance_loss", "margin"),
        (f"{N}triplet_margin_with_distance_loss", "reduction"),
    ],
)
def test_an_ignored_argument_is_noticed(name: str, ignored: str) -> None:
    assert noticed([name], [Changed(ignored)], ["float32"], ["forward"], 60)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_a_wrong_gradient_is_noticed(name: str) -> None:
    assert noticed([name], [Sloped()], ["float32"], ["backward"], 40)


@pytest.mark.parametrize("rank", [2, 3])
def test_windows_that_begin_elsewhere_are_noticed(rank: int) -> None:
    class Elsewhere(consistency.Backend):
        name = "elsewhere"

        def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            places = kwargs["_random_samples"]
            return super().call(operator, args, {**kwargs, "_random_samples": places * 0.0})

    name = f"{N}fractional_max_pool{rank}d"
    assert noticed([name], [Elsewhere()], ["float32"], ["forward"], 40)


@pytest.mark.parametrize(
    ("name", "position", "value"), [("renorm", 1, 2.0), ("renorm", 3, 1.0), ("renorm_", 2, 0)]
)
def test_an_argument_taken_as_another_is_noticed(name: str, position: int, value: float) -> None:
    class Other(consistency.Backend):
        name = "other"

        def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            changed = (*args[:position], value, *args[position + 1 :])
            return super().call(operator, changed, kwargs)

    assert noticed([name], [Other()], ["float32"], ["forward"], 40)
