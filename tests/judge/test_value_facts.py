"""What a recipe says of its numbers without making them: no magnitude exceeds the bound."""

from __future__ import annotations

import math

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate import search
from consistency.generate.materialize import literal, prepare
from consistency.judge.known.value_facts import bound_of

# a class with its parameters, its bound, and how much of the bound 4,096 of its numbers reach
BOUNDED = [
    ("int64", ("integers", -9, 5), 9, 1.0),
    ("int64", ("integers", 1, 2**61), 2**61, 0.9),
    ("int64", ("powers", 64), 2**63, 1.0),
    ("int32", ("powers", 32), 2**31, 1.0),
    ("int64", ("sparse", 0.5), 1, 1.0),
    ("int64", ("balanced", 8, 1, 1, 3), 1, 1.0),
    ("int64", ("permutation",), 4096, 0.9),
    ("float32", ("uniform", -3.0, 2.0), 3.0, 0.9),
    ("float32", ("wide", -8, 8, 1), 512.0, 0.9),
    ("float32", ("near", -4.0, 8.0, 7.0), 8.0, 0.9),
    ("float32", ("offset", -100.0, 1.0), 101.0, 0.9),
    ("float32", ("diagonal", 8, 9.0), 10.0, 0.9),
    ("float32", ("exchanged", 8, 9.0), 10.0, 0.9),
    ("float32", ("distinct",), 2048.0, 1.0),
    ("float32", ("ascending", -2.0, 1.0), 2.0, 0.9),
    ("float32", ("tokens", -1.0, 1.0, "max", "nan"), torch.finfo(torch.float32).max, 1.0),
    ("float16", ("constant", "max"), 65504.0, 1.0),
    ("float32", ("constant", "-0"), 0.0, 1.0),
]


@pytest.mark.parametrize(("dtype", "values", "bound", "share"), BOUNDED)
def test_the_bound_of_a_class(
    dtype: str, values: tuple[object, ...], bound: float, share: float
) -> None:
    recipe = TensorRecipe((4096,), dtype, values, stop=50_000)
    assert bound_of(recipe) == bound
    (made,) = prepare(Case("neg", dtype, (recipe,))).build().tensors
    largest = max(abs(number) for number in made.tolist() if number == number)
    assert share * bound <= largest <= bound


def test_special_values_count() -> None:
    recipe = TensorRecipe(
        (8,), "float32", ("uniform", -1.0, 1.0), special=((3, "nan"), (5, "-inf"))
    )
    assert bound_of(recipe) == math.inf
    assert (
        bound_of(TensorRecipe((8,), "float32", ("uniform", -1.0, 1.0), special=((3, "nan"),)))
        == 1.0
    )


def test_what_has_no_bound_is_unknown() -> None:
    for values in (("normal", 0.0, 1.0), ("every", 0), ("landmarks",), ("integers", "x"), ()):
        assert bound_of(TensorRecipe((8,), "float32", values)) is None


def test_the_bound_of_literal_data_is_its_largest_magnitude() -> None:
    assert bound_of(literal(torch.tensor([1, -(2**62) - 1]))) == 2**62 + 1
    assert bound_of(literal(torch.tensor([1.0, math.nan, -3.0], dtype=torch.bfloat16))) == 3.0
    assert bound_of(literal(torch.tensor([1 - 4j]))) == 4.0
    assert bound_of(literal(torch.tensor([True, False]))) == 1
    assert bound_of(literal(torch.tensor([]))) is None
    assert bound_of(literal(torch.tensor([math.nan]))) is None


@pytest.mark.parametrize("name", ["add", "matmul", "bitwise_left_shift", "gather", "exp", "pow"])
def test_no_drawn_tensor_exceeds_its_bound(name: str) -> None:
    operator = operators.get(name)
    for dtype in ("int64", "int32", "float32", "bfloat16"):
        if dtype not in operator.dtypes:
            continue
        for case in search.batch(operator, dtype, 30, 5):
            for recipe, made in zip(case.tensors, prepare(case).build().tensors, strict=True):
                bound = bound_of(recipe)
                if bound is not None:
                    numbers = made.flatten().tolist()
                    end = bound * (1 + 2.0**-8)  # rounded to the format
                    assert all(not abs(number) > end for number in numbers), recipe
