"""The public Hypothesis strategies: layouts, value classes, dtypes, bounds, shrinking."""

from __future__ import annotations

import contextlib

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import consistency
from consistency import UsageError, strategies

QUIET = settings(
    max_examples=200, deadline=None, database=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def drawn(strategy: st.SearchStrategy[torch.Tensor]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []

    @QUIET
    @given(strategy)
    def collect(x: torch.Tensor) -> None:
        found.append(x)

    collect()
    return found


def test_every_layout_and_class_of_values_comes() -> None:
    found = drawn(strategies.tensors(dtypes=["float32", "bfloat16"], min_dims=1))
    assert {x.dtype for x in found} == {torch.float32, torch.bfloat16}
    assert any(not x.is_contiguous() for x in found)
    assert any(x.is_contiguous() for x in found)
    assert any(torch.isnan(x).any() for x in found)
    assert any(torch.isinf(x).any() for x in found)
    assert len({x.ndim for x in found}) > 2


def test_bounds_hold() -> None:
    found = drawn(
        strategies.tensors(
            (3, 4), low=0.25, high=2.0, layouts=False, special_values=False, dtypes=["float16"]
        )
    )
    assert all(x.shape == (3, 4) and x.is_contiguous() for x in found)
    assert all(bool(((x >= 0.25) & (x <= 2.0)).all()) for x in found)
    shapes = [tuple(x.shape) for x in drawn(strategies.tensors(min_dims=2, max_dims=2, max_side=9))]
    assert all(len(shape) == 2 and max(shape) <= 9 for shape in shapes)


def test_whole_numbers_and_a_class_of_ones_own() -> None:
    assert all(x.dtype == torch.int64 for x in drawn(strategies.tensors(dtypes=["int64"])))
    whole = drawn(strategies.tensors((4,), values=("integers", -2, 2), special_values=False))
    assert all(bool((x == x.round()).all()) and bool((x.abs() <= 2).all()) for x in whole)


def test_it_shrinks_to_the_culprit() -> None:
    smallest = find(
        strategies.tensors(special_values=False), lambda x: bool((x > 0.5).any()), settings=QUIET
    )
    assert smallest.numel() == 1


def test_shapes_and_dtypes() -> None:
    @QUIET
    @given(strategies.shapes(min_dims=1, max_dims=3, min_side=2, max_side=5), strategies.dtypes())
    def check(shape: tuple[int, ...], dtype: torch.dtype) -> None:
        assert 1 <= len(shape) <= 3
        assert all(2 <= size <= 5 for size in shape)
        assert dtype.is_floating_point

    check()


def test_arguments_of_a_declared_operator() -> None:
    @settings(QUIET, max_examples=5)
    @given(strategies.arguments("softmax"))
    def check(call: tuple[tuple[object, ...], dict[str, object]]) -> None:
        args, kwargs = call
        torch.softmax(*args, **kwargs)  # type: ignore[call-overload]

    check()


def test_with_assert_consistent() -> None:
    passed: list[bool] = []

    @settings(QUIET, max_examples=10)
    @given(strategies.tensors(min_dims=1, special_values=False, low=-10.0, high=10.0))
    def check(x: torch.Tensor) -> None:
        # A case that can tell nothing, such as one of zeros only, is no pass.
        with contextlib.suppress(consistency.Divergence):
            results = consistency.assert_consistent(torch.exp, x)
            passed.append(results[0].verdict.passes)

    check()
    assert all(passed)
    assert len(passed) > 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: strategies.dtypes("float23"), "unknown dtype 'float23'; did you mean float32"),
        (lambda: strategies.tensors(low=2.0, high=1.0).example(), "low = 2.0 is above high = 1.0"),
        (lambda: strategies.shapes(min_dims=3, max_dims=2).example(), "give 0 ≤ min ≤ max"),
        (lambda: strategies.cases("softmaxx"), "softmaxx"),
    ],
)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
def test_a_mistake_is_one_clear_line(make: object, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        make()  # type: ignore[operator]
