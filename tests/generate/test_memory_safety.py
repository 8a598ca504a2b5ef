"""Calls whose gradient torch writes beyond its memory are neither varied, explained nor made
smaller."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from consistency import operators
from consistency.backends import resolve
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.shrink.failure_predicate import FailurePredicate
from consistency.generate.gradients import with_untracked_inputs
from consistency.generate.long_transforms import with_safe_dims
from consistency.generate.memory_safety import is_unsafe
from consistency.generate.strategies import cases
from consistency.generate.variations import is_possible, variations
from consistency.judge import tolerances

NAME = "nn.functional.max_pool2d"
DILATED: dict[str, Any] = {"ceil_mode": True, "dilation": 3, "padding": [1, 0], "stride": 8}


def pooled(*shape: int, **options: Any) -> Case:
    image = TensorRecipe(shape, "float32", ("uniform", -1.0, 1.0), 9000)
    return Case(NAME, "float32", (image, 3), options, 7)


@pytest.mark.parametrize(
    ("case", "unsafe"),
    [
        (pooled(2, 3, 5, 9, **DILATED), False),
        (pooled(2, 3, 2, 9, **DILATED), True),  # rows -1, 2 and 5 of two
        (pooled(2, 3, 5, 9, stride=2, padding=1), False),
        (pooled(2, 3, 5, 9, dilation=9), False),  # torch refuses it
    ],
)
def test_windows_of_padding_only(case: Case, unsafe: bool) -> None:
    operator = operators.get(NAME)
    assert is_unsafe(operator, case) == unsafe
    if unsafe:
        assert not is_possible(operator, case)


def test_others_are_not_looked_at() -> None:
    image = TensorRecipe((2, 3), "float32", ("uniform", -1.0, 1.0), 9000)
    assert not is_unsafe(operators.get("exp"), Case("exp", "float32", (image,)))


@pytest.mark.parametrize(("keys", "values"), [(9, 2), (2, 9), (9, 9)])
def test_keys_and_values_of_different_lengths(keys: int, values: int) -> None:
    name = "nn.functional.scaled_dot_product_attention"
    shapes = ((1, 3, 4), (1, keys, 4), (1, values, 4))
    case = Case(name, "float32", tuple(TensorRecipe(s, "float32", stop=99) for s in shapes))
    operator = operators.get(name)
    assert is_unsafe(operator, case) == (keys != values)
    assert is_possible(operator, case) == (keys == values)


def test_a_smaller_case_that_is_unsafe_is_not_run() -> None:
    predicate = FailurePredicate(
        operators.get(NAME), resolve("cpu"), tolerances.load(), "backward", "all", math.inf
    )
    result = predicate.judged(pooled(2, 3, 2, 9, **DILATED))
    assert result.verdict.value == "inconclusive"
    assert result.explanation == "a gradient would be written beyond its memory"


LAST = (("permute", 0, 3, 1, 2),)
TWICE = (("transpose", 2, 3), ("transpose", 1, 2))  # the same strides in two steps


def grouped(leaf: bool, view: tuple[tuple[Any, ...], ...]) -> Case:
    image = TensorRecipe(
        (2, 3, 5, 6), "float32", ("uniform", -1.0, 1.0), 9000, view=view, leaf=leaf
    )
    channels = 6 if view else 3
    weight = TensorRecipe((channels,), "float32", ("uniform", -1.0, 1.0), 500)
    return Case("nn.functional.group_norm", "float32", (image, 3, weight), {}, 7)


@pytest.mark.parametrize(
    ("leaf", "view", "unsafe"),
    [(False, LAST, True), (False, TWICE, True), (True, TWICE, False), (False, (), False)],
)
def test_a_gradient_that_is_not_there_is_not_written(
    leaf: bool, view: tuple[tuple[Any, ...], ...], unsafe: bool
) -> None:
    operator = operators.get("nn.functional.group_norm")
    case = grouped(leaf, view)
    assert is_unsafe(operator, case) == unsafe
    assert not any(is_unsafe(operator, other) for other in variations(operator, grouped(leaf, ())))
    if leaf:
        changed = with_untracked_inputs(operator, [case] * 5)
        assert all(other.tensors[0].leaf for other in changed)


def test_one_channel_that_torch_takes_for_the_inner_dimension_counts() -> None:
    view = (("slice", 0, 2, 6, 3), ("permute", 0, 3, 1, 2))  # (2, 1, 7, 1) of strides (21, 1, 1, 1)
    image = TensorRecipe((7, 7, 1, 1), "float32", ("integers", -4, 4), 500, view, leaf=False)
    weight = TensorRecipe((1,), "float32", ("uniform", -1.0, 1.0), 600)
    case = Case("nn.functional.group_norm", "float32", (image, 1, weight), {}, 7)
    assert is_unsafe(operators.get("nn.functional.group_norm"), case)


AROUND = (("permute", 1, 2, 0),)


@pytest.mark.parametrize(
    ("name", "shape", "view", "options", "unsafe"),
    [
        ("fft.fftn", (2, 512, 3), (), {"dim": (0, 1)}, True),
        ("fft.fftn", (2, 512, 3), (), {"dim": (1, 2)}, False),  # the innermost is transformed
        ("fft.fftn", (2, 13, 3), (), {"dim": (0, 1)}, False),
        ("fft.fftn", (2, 7, 3), (), {"dim": (0, 1), "s": (2, 16)}, True),
        (
            "fft.fftn",
            (3, 2, 512),
            AROUND,
            {"dim": (0, 1)},
            True,
        ),  # the gradient, which is contiguous
        ("fft.fftn", (2, 300, 3), (), {"dim": (1, 2, 0), "s": (-1, 1, -1)}, True),
        ("fft.fftn", (2, 600, 3), (("slice", 2, 0, 3, 2),), {"dim": (0, 1)}, True),
        ("fft.irfftn", (2, 512, 3), (), {}, True),
        ("fft.irfftn", (3, 2, 512), AROUND, {}, False),  # its gradient is one real transform
        ("fft.irfftn", (3, 2, 512), AROUND, {"s": (2, 600, 4)}, True),  # padded: contiguous
        ("fft.irfftn", (2, 300, 1), (), {"s": (-1, -1, 13)}, True),
        ("fft.rfftn", (2, 512, 3), (), {}, False),
        ("fft.rfftn", (2, 512, 3), (), {"dim": (0, 1)}, True),  # its gradient
        ("fft.hfftn", (3, 2, 512), AROUND, {}, True),  # its gradient has a half spectrum inside
        ("fft.ihfftn", (3, 2, 512), AROUND, {}, True),  # the half spectrum lies inside
        ("fft.ihfftn", (1, 2, 2, 300), (), {"dim": (3, 2, 1), "s": (-1, -1, 13)}, True),
        ("fft.ihfft2", (2, 2, 512), (), {}, False),
        ("fft.irfft2", (2, 512, 3), (), {}, False),  # a complex transform of one dimension
        ("fft.fft", (2, 512, 3), (), {}, False),
        ("fft.fftn", (1, 1, 1), (), {"dim": (0, 1), "s": (16, 16)}, False),
        ("fft.fftn", (2, 512, 3), (), {"dim": (0, 1), "s": (2, -1)}, True),
    ],
)
def test_transforms_of_long_dims_around_others_are_not_run(
    name: str, shape: tuple[int, ...], view: Any, options: dict[str, Any], unsafe: bool
) -> None:
    signal = TensorRecipe(shape, "float32", ("uniform", -1.0, 1.0), 9000, view=view)
    case = Case(name, "float32", (signal,), options)
    assert is_unsafe(operators.get(name), case) == unsafe
    assert is_possible(operators.get(name), case) is not unsafe
    if f"{name}.out" not in operators.registry():
        return
    written = operators.get(f"{name}.out")
    room = TensorRecipe((1,), "complex64", ("uniform", -1.0, 1.0), 9000)
    assert is_unsafe(written, Case(written.name, "float32", (room, signal), options)) == unsafe


def test_a_drawn_signal_whose_transform_overruns_is_contiguous() -> None:
    operator = operators.get("fft.fft2")
    around = TensorRecipe(
        (2, 17, 3),
        "float32",
        ("uniform", -1.0, 1.0),
        9000,
        view=(("permute", 2, 0, 1),),
        special=((5, "nan"),),
    )
    unsafe = Case("fft.fft2", "float32", (around,), {"dim": [-2, -1]})
    assert is_unsafe(operator, unsafe)
    drawn = with_safe_dims(operator, unsafe)
    assert not is_unsafe(operator, drawn)
    assert drawn.args == (replace(around, base=(3, 2, 17), view=()),)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name",
    [
        "fft.fft2",
        "fft.ifftn.out",
        "fft.irfftn",
        "fft.rfftn.out",
        "fft.hfftn",
        "fft.ihfftn",
    ],
)
def test_no_drawn_transform_overruns(name: str) -> None:
    operator = operators.get(name)
    found: list[Case] = []

    @given(cases(operator, operator.dtypes[0]))
    @settings(max_examples=300, database=None, deadline=None, derandomize=True)
    def draw(case: Case) -> None:
        found.append(case)

    draw()
    assert not [case.line for case in found if is_unsafe(operator, case)]


def attention(*heads: int) -> Case:
    query, key = (
        TensorRecipe((1, count, 4, 8), "float32", ("uniform", -1.0, 1.0), 9000) for count in heads
    )
    return Case("grouped_query_attention", "float32", (query, key, key), {}, 7)


@pytest.mark.parametrize(("heads", "possible"), [((4, 2), True), ((2, 0), False), ((0, 0), False)])
def test_a_grouped_attention_has_heads_to_divide_by(heads: tuple[int, int], possible: bool) -> None:
    operator, case = operators.get("grouped_query_attention"), attention(*heads)
    assert is_unsafe(operator, case) is not possible
    assert is_possible(operator, case) is possible
