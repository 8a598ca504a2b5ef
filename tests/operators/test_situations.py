"""Situations in which backends were reported to be wrong come up in the first cases of an
operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.generate.materialize import prepare
from consistency.generate.search import batch
from consistency.operators.interpolation import HALFWAY, certain
from consistency.operators.nonunique_results import quotient_neighbors

SEEDS = range(24)  # a situation may be missing from the five cases of one seed
Test = Callable[..., Any]


def cases(name: str, dtype: str, seed: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    made = (prepare(case).build() for case in batch(operators.get(name), dtype, 5, seed))
    return [(arguments.args, arguments.kwargs) for arguments in made]


def infinite_divisor(x: Any, y: Any, **_: Any) -> Any:
    return isinstance(y, torch.Tensor) and y.is_floating_point() and y.isinf().any()


def smallest_dividend(x: torch.Tensor, y: Any, **_: Any) -> Any:
    return (x == torch.iinfo(x.dtype).min).any()


def empty_index(x: Any, dim: Any, index: torch.Tensor, *_: Any, **__: Any) -> bool:
    return index.numel() == 0


def lone_pixel(x: torch.Tensor, **options: Any) -> bool:
    return x.shape[-1] == 1 and bool(options.get("align_corners"))


def hidden_query(*_: Any, attn_mask: Any = None, **__: Any) -> Any:
    is_boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    return is_boolean and not attn_mask.any(-1).all()


def long_row_of_nan(x: torch.Tensor, **_: Any) -> Any:
    return x.ndim and max(x.shape) > 128 and (x.isnan() & x.signbit()).any()


def zeros_beside_large(x: torch.Tensor, **_: Any) -> Any:
    return (x == 0).sum() > 1 and x.max() > 1e12


def wrapped_byte(x: torch.Tensor, **_: Any) -> Any:
    return (x < 0).any()


def narrow_overflow(x: torch.Tensor, order: Any = 2, **_: Any) -> Any:
    return order == 2 and x.double().square().sum() > 65504.0 > x.double().norm()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "dtype", "situation"),
    [
        ("floor_divide", "float32", infinite_divisor),
        ("div", "float32", infinite_divisor),
        ("floor_divide", "int32", smallest_dividend),
        ("floor_divide", "int8", smallest_dividend),
        ("scatter", "float32", empty_index),
        ("index_copy", "int64", empty_index),
        ("nn.functional.interpolate", "float32", lone_pixel),
        ("nn.functional.scaled_dot_product_attention", "float32", hidden_query),
        ("sort", "float32", long_row_of_nan),
        ("prod", "float32", zeros_beside_large),
        ("byte", "int64", wrapped_byte),
        ("norm", "float16", narrow_overflow),
    ],
)
def test_it_comes_up_in_the_first_five_cases(name: str, dtype: str, situation: Test) -> None:
    seen = [
        any(situation(*args, **kwargs) for args, kwargs in cases(name, dtype, seed))
        for seed in SEEDS
    ]
    assert sum(seen) >= len(SEEDS) / 3, seen


def test_a_quotient_by_an_infinity_has_no_neighbor() -> None:
    x, y = torch.tensor([1.0, 0.7]), torch.tensor([-torch.inf, 0.1])
    result = torch.floor_divide(x.double(), y.double())
    for (other,) in quotient_neighbors((x.double(), y.double()), {}, (result,)):
        assert other[0] == -1.0
        assert abs(other[1] - 6.0) == 1.0


@pytest.mark.parametrize(("before", "after"), HALFWAY)
def test_pixels_exactly_halfway_tell_a_quotient_from_a_product(before: int, after: int) -> None:
    """… and torch's own formula is certain of them in every precision."""
    assert certain(before, after, None, 0.5)
    places = (torch.arange(after) + 0.5) / torch.tensor(after / before) - 0.5
    divided = torch.floor(places.double() + 0.5).clamp(0, before - 1)
    pixels = torch.arange(float(before))[None, None]
    taken = torch.nn.functional.interpolate(pixels, size=[after], mode="nearest-exact")
    assert not torch.equal(divided, taken[0, 0].double())
