"""S and n of an operator take every form of its call that torch takes: options by position, by
name, or left out. Where they fail, a call is judged by a generic model, which knows nothing of what
cancels."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference import Reference, quiet

UNIFORM = ("uniform", -1.0, 1.0)
N = "nn.functional."


def x(*shape: int, stop: int = 3001) -> TensorRecipe:
    return TensorRecipe(shape, "float32", UNIFORM, stop)


QKV = (x(2, 3, 4), x(2, 5, 4, stop=4001), x(2, 5, 4, stop=5001))
LABELS = TensorRecipe((5,), "int64", ("integers", 0, 3), 2001)
# The operator; a call with options by position or left out, and the same by name.
FORMS: list[tuple[str, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("arange", (7,), (0, 7, 1), {}),
    ("diff", (x(4, 6), 2), (x(4, 6),), {"n": 2, "dim": -1}),
    ("diff", (x(4, 6),), (x(4, 6),), {"n": 1, "dim": 1}),
    ("trapezoid", (x(4, 6),), (x(4, 6),), {"dx": 1.0, "dim": -1}),
    ("var", (x(4, 6), True), (x(4, 6),), {"unbiased": True}),
    (
        "var",
        (x(4, 6), [1], False, True),
        (x(4, 6),),
        {"dim": [1], "correction": 0, "keepdim": True},
    ),
    ("std", (x(4, 6), 0), (x(4, 6),), {"dim": 0, "correction": None}),
    ("var_mean", (x(4, 6), 1, False), (x(4, 6),), {"dim": 1, "unbiased": False}),
    (N + "rms_norm", (x(3, 4), [4]), (x(3, 4), [4], None, None), {}),
    (
        N + "interpolate",
        (x(1, 2, 5), 7, None, "linear"),
        (x(1, 2, 5),),
        {"size": 7, "mode": "linear"},
    ),
    (N + "scaled_dot_product_attention", (*QKV, None, 0.0, True), QKV, {"is_causal": True}),
    (N + "scaled_dot_product_attention", QKV, QKV, {"dropout_p": 0.0, "enable_gqa": False}),
    (N + "cosine_similarity", (x(), x(stop=4001), 0), (x(), x(stop=4001)), {"dim": 0}),
    (N + "normalize", (x(), 2.0, 0), (x(),), {"p": 2.0, "dim": 0}),
    (N + "multi_margin_loss", (x(5, 4), LABELS), (x(5, 4), LABELS), {"p": 1, "margin": 1.0}),
    (N + "fold", (x(1, 8, 9), [4, 4], 2), (x(1, 8, 9), [4, 4], [2, 2]), {}),
    (N + "normalize", (x(4, 6), 2.0, [1]), (x(4, 6),), {"dim": 1}),
    ("fft.fftn", (x(2, 4, 6),), (x(2, 4, 6),), {"dim": None, "norm": None}),
    ("fft.irfftn", (x(2, 4, 6),), (x(2, 4, 6),), {"dim": [0, 1, 2]}),
    (
        "cross",
        (x(4, 3, stop=3001), x(4, 3, stop=4001)),
        (x(4, 3), x(4, 3, stop=4001)),
        {"dim": None},
    ),
    ("masked.softmax", (x(4, 6), 1), (x(4, 6), 1), {"mask": None}),
]


def measured(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any], direction: str) -> Any:
    """S of every output, and n."""
    case = Case(operator, "float32", args, kwargs, cotangent=700)
    with quiet():
        reference = Reference(operators.get(operator), prepare(case), direction)
        assert reference.outcome.ok, reference.outcome.message
        sizes = [s.tolist() if isinstance(s, torch.Tensor) else s for s in reference.magnitudes]
        return sizes, [reference.growth(index) for index in range(len(reference.outputs))]


@pytest.mark.parametrize(("operator", "args", "named", "options"), FORMS)
def test_every_form_of_a_call_has_the_same_magnitudes(
    operator: str, args: tuple[Any, ...], named: tuple[Any, ...], options: dict[str, Any]
) -> None:
    for direction in operators.get(operator).directions:
        assert measured(operator, args, {}, direction) == measured(
            operator, named, options, direction
        )


def test_points_of_a_trapezoid() -> None:
    """Equal distances are given as a number, or as points."""
    points = TensorRecipe((6,), "float32", ("uniform", 0.0, 1.0), 901)
    (given,), growth = measured("trapezoid", (x(4, 6), points), {}, "forward")
    assert len(given) == 4
    assert all(size > 0.0 for size in given)
    assert growth == measured("trapezoid", (x(4, 6),), {}, "forward")[1]


@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_one_row_of_one_class(name: str) -> None:
    target = TensorRecipe((), "int64", ("integers", 0, 0), 5)
    for direction in ("forward", "backward"):
        sizes, _ = measured(N + name, (x(), target), {}, direction)
        assert len(sizes) == 1


def test_a_cross_product_without_a_dimension_is_along_the_first_of_size_3() -> None:
    """torch.cross; the default of torch.linalg.cross is the last."""
    x, y = torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    function = operators.get("cross").error.magnitude
    assert callable(function)
    expected = function((x, y), {"dim": 0}, (torch.empty(3, 8),))
    assert torch.equal(function((x, y), {}, (torch.empty(3, 8),)), expected)


def test_truth_values_are_added() -> None:
    """A tensor of truth values beside numbers, and a factor that is a fraction."""
    function = operators.get("add").error.magnitude
    assert callable(function)
    x, truths = torch.ones(3, dtype=torch.float64), torch.tensor([True, False, True])
    size = function((x, truths), {"alpha": 0.75}, (x + 0.75 * truths,))
    assert size.tolist() == [0.75, 0.0, 0.75]


def test_what_is_left_of_a_circle_is_repeated() -> None:
    """torch copies memory that nobody wrote where one side is cropped and the other longer."""
    reference = operators.get("nn.functional.pad").reference
    assert reference is not None
    x = torch.arange(4.0).reshape(1, 1, 4)
    assert reference(x, [5, -2], "circular").flatten().tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert reference(x, [-1, 2], "circular").flatten().tolist() == [1, 2, 3, 1, 2]
    whole = torch.nn.functional.pad(x, [2, 1], "circular")
    assert torch.equal(reference(x, [2, 1], "circular"), whole)
