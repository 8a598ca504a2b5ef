"""S where a result jumps, of lists, and of gradients that only move numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.core.dtypes import FORMATS
from consistency.core.model import Case
from consistency.generate.materialize import prepare
from consistency.reference import Reference, quiet


def drawn(dtype: str, base: list[int], stop: int, values: list[Any]) -> dict[str, Any]:
    return {"tensor": {"base": base, "dtype": dtype, "stop": stop, "values": values}}


def ordinary(base: list[int]) -> dict[str, Any]:
    return drawn("float32", base, 4096, ["uniform", 0.25, 1.0])


ATTENTION = "nn.functional.scaled_dot_product_attention"
ONE = [1, 2, 6, 4]
A_CLASS = drawn("int64", [], 12003, ["integers", 0, 3])


def gradient(operator: str, dtype: str, *args: Any, **kwargs: Any) -> Reference:
    made = {
        "operator": operator,
        "dtype": dtype,
        "args": [*args],
        "kwargs": kwargs,
        "cotangent": 7000,
    }
    case = Case.from_line(json.dumps(made))
    with quiet():
        reference = Reference(operators.get(operator), prepare(case), "backward")
        assert reference.outcome.ok
        assert reference.magnitudes
    return reference


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_jump_admits_a_few_times_itself(dtype: str) -> None:
    """One of the inputs lies on the kink, where the gradient changes by its own size."""
    whole = drawn(dtype, [64], 640, ["integers", -4, 4])
    reference = gradient("nn.functional.hardswish", dtype, whole)
    size, slope = reference.magnitudes[0], reference.outputs[0].tensor
    assert isinstance(size, torch.Tensor)
    assert slope is not None
    admitted = size.max() * FORMATS[dtype].unit_roundoff
    jump = 1.0  # cotangents are at most 1; the slope changes by ½ or 1 at −3 and 3
    assert admitted < 8.0 * jump
    x = reference.arguments.tensors[0]
    at_kink = x.abs() == 3.0
    assert at_kink.any()
    assert (size[at_kink] * FORMATS[dtype].unit_roundoff).max() > 0.25 * slope[at_kink].abs().max()


def test_smooth_functions_keep_their_slope_where_they_are_steep() -> None:
    """x·f″ of a steep gradient: no jump, though one rounding changes the result by more than an
    eighth."""
    (size,) = gradient(
        "tan", "bfloat16", drawn("bfloat16", [1], 9, ["uniform", 1.5625, 1.5625])
    ).magnitudes
    x = torch.tensor(1.5625, dtype=torch.float64)
    slope = 1.0 / torch.cos(x) ** 2
    assert isinstance(size, torch.Tensor)
    assert float(size) > 100.0 * float(slope) * 0.01


def test_gradients_of_lists_belong_to_the_result_at_their_place() -> None:
    steep = drawn("float32", [600], 99, ["uniform", 8.0, 9.0])
    flat = drawn("float32", [3], 990, ["uniform", -1.0, 1.0])
    reference = gradient("_foreach_cosh", "float32", [steep, flat])
    size = reference.magnitudes[1]
    assert isinstance(size, torch.Tensor)
    assert size.max() < 8.0
    assert reference.terms(1) == 1.0  # not of the 603 results


def test_the_terms_of_two_lists_are_those_of_results_at_the_same_places() -> None:
    lists = [[ordinary([600]), ordinary([3])], [ordinary([600]), ordinary([1])]]
    reference = gradient("_foreach_mul", "float32", *lists)
    assert [reference.terms(i) for i in range(4)] == [1.0, 1.0, 1.0, 3.0]


def test_each_cotangent_is_added_once_at_most() -> None:
    x = drawn("float32", [40, 30], 4000, ["uniform", -1.0, 1.0])
    index = drawn("int64", [50], 100, ["integers", 0, 39])
    reference = gradient(
        "index_add",
        "float32",
        x,
        0,
        index,
        drawn("float32", [50, 30], 9000, ["uniform", -1.0, 1.0]),
    )
    assert all(reference.terms(i) <= 40 * 30 for i in range(len(reference.outputs)))


def test_a_negative_scale_of_attention_leaves_magnitudes_positive() -> None:
    query, key, value = (
        drawn("float32", [2, 5, 8], stop, ["uniform", -1.0, 1.0]) for stop in (400, 900, 1500)
    )
    name = "nn.functional.scaled_dot_product_attention"
    sizes = gradient(name, "float32", query, key, value, scale=-0.5).magnitudes
    assert all(bool((torch.as_tensor(size) > 0.0).all()) for size in sizes)


def test_a_sum_of_equal_steps_admits_half_a_unit_for_each() -> None:
    """The target's gradient of a multi-margin loss over many classes."""
    scores = drawn("float32", [1024], 3000, ["uniform", -1.0, 1.0])
    target = drawn("int64", [], 10, ["integers", 0, 1023])
    (size,) = gradient("nn.functional.multi_margin_loss", "float32", scores, target).magnitudes
    assert float(torch.as_tensor(size).max()) >= 1024 / 16


@pytest.mark.parametrize(
    ("operator", "direction", "args", "kwargs"),
    [
        ("nn.functional.normalize", "forward", [ordinary([2, 3])], {"p": 0.0}),
        ("nn.functional.gaussian_nll_loss", "forward", [ordinary([3]), ordinary([3]), 0.5], {}),
        ("nn.functional.multi_margin_loss", "forward", [ordinary([1, 4]), A_CLASS], {}),
        ("nn.functional.prelu", "backward", [ordinary([]), ordinary([1])], {}),
        (ATTENTION, "backward", [ordinary([1, 2, 2, 5, 4]), *[ordinary([2, 2, 6, 4])] * 2], {}),
        (ATTENTION, "backward", [ordinary(s) for s in ([2, 2, 5, 4], [2, 2, 6, 4], ONE)], {}),
    ],
)
def test_arguments_that_torch_takes_have_an_s(
    operator: str, direction: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    """The number of what is not zero as a norm, one variance for all, a class without a dimension,
    one slope for a single number, keys or values for several batches."""
    line = {"operator": operator, "dtype": "float32", "args": args, "kwargs": kwargs}
    case = Case.from_line(json.dumps(line | {"cotangent": 7000}))
    with quiet():
        reference = Reference(operators.get(operator), prepare(case), direction)
        assert reference.outcome.ok
        sizes = [torch.as_tensor(size) for size in reference.magnitudes]
    assert sizes
    assert all(bool((size >= 0.0).all()) and bool(size.isfinite().all()) for size in sizes)


def test_the_gradient_of_an_operand_that_a_loss_broadcasts_adds_up_terms() -> None:
    x = drawn("float32", [40, 1], 4000, ["uniform", -1.0, 1.0])
    target = drawn("float32", [34, 6, 40, 1], 20000, ["uniform", -1.0, 1.0])
    with quiet():
        reference = gradient("nn.functional.mse_loss", "float32", x, target)
        terms = [reference.terms(i) for i in range(2)]
    assert terms == [34.0 * 6.0, 1.0]


@pytest.mark.parametrize("shape", [[1], [5], [2, 5]])
def test_a_weight_of_a_loss_may_broadcast(shape: list[int]) -> None:
    x, target = drawn("float32", [1], 400, ["uniform", -1.0, 1.0]), ordinary([5])
    with quiet():
        reference = gradient(
            "nn.functional.l1_loss", "float32", x, target, weight=drawn("float32", shape, 900,
            ["uniform", 0.5, 1.0]),
        )  # fmt: skip
        size = reference.magnitudes[2]
    assert isinstance(size, torch.Tensor)
    assert list(size.shape) == shape
    assert (size >= reference.outputs[2].tensor.abs()).all()  # type: ignore[union-attr]
