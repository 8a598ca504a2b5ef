"""What no definition decides is not proved: whether a NaN is left out behind a mask or in padding,
or is multiplied by 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference import Reference

UNIFORM = ("uniform", -1.0, 1.0)


def proved(case: Case, position: int, direction: str = "forward") -> Any:
    """The certificate of an element of the first output; None where there is none."""
    reference = Reference(operators.get(case.operator), prepare(case), direction)
    reference.proofs.settle(0, [position])
    return reference.proofs.certificates.get((0, position))


def attended(visible: int, *special: tuple[int, str]) -> Case:
    """Two queries of two numbers, NaN where ``special`` says so; three keys, of which the first
    ``visible`` are seen."""
    query = TensorRecipe((1, 2, 2), "float32", UNIFORM, 2007, special=special)
    key, value = (TensorRecipe((1, 3, 2), "float32", UNIFORM, stop) for stop in (3007, 4007))
    seen = ("leading", 0.0, 0.0, visible, "1") if visible else ("integers", 0, 0)
    mask = TensorRecipe((1, 3), "bool", seen, 5007)
    return Case(
        "nn.functional.scaled_dot_product_attention", "float32", (query, key, value),
        {"attn_mask": mask},
    )  # fmt: skip


def test_nothing_visible_is_zero() -> None:
    certificate = proved(attended(0), 0)
    assert certificate is not None
    assert certificate.high == 0.0


def test_nor_is_it_decided_beside_a_query_of_nan() -> None:
    case = attended(0, (0, "nan"))
    assert proved(case, 0) is None  # −∞ in the place of NaN gives 0, −∞ added to it NaN
    assert proved(case, 2) is not None  # the other query has no NaN


def convolved(
    padding: int, *special: tuple[int, str], operator: str = "nn.functional.conv1d"
) -> Case:
    image = TensorRecipe((1, 1, 6), "float64", UNIFORM, 2007)
    weight = TensorRecipe((1, 1, 3), "float64", UNIFORM, 3007, special=special)
    return Case(operator, "float64", (image, weight), {"padding": padding}, cotangent=900)


SPOILED = [("nn.functional.conv1d", "forward"), ("nn.functional.conv_transpose1d", "backward")]


@pytest.mark.parametrize(("operator", "direction"), SPOILED)
def test_a_number_that_a_zero_of_padding_spoils(operator: str, direction: str) -> None:
    """torch's CPU multiplies a NaN of the kernel with the zeros around an image: here the first
    number of a kernel meets nothing else."""
    assert proved(convolved(1, (0, "nan"), operator=operator), 0, direction) is None


@pytest.mark.parametrize(("operator", "direction"), SPOILED)
def test_without_nan_it_is_proved(operator: str, direction: str) -> None:
    assert proved(convolved(1, operator=operator), 0, direction) is not None


def test_a_nan_that_meets_a_pixel_is_proved() -> None:
    certificate = proved(convolved(0, (0, "nan")), 2)
    assert certificate is not None
    assert certificate.high != certificate.high


def test_other_operators_owe_what_they_are_defined_by() -> None:
    """A sum of the same numbers has no zeros to multiply with."""
    case = convolved(0, (0, "nan"))
    summed = replace(case, operator="sum", args=(case.args[1],), kwargs={})
    assert proved(summed, 0) is not None
