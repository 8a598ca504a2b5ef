"""Definitions of the reference at the ends of the line, against mpmath, NumPy and exact numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor

from consistency.operators import definitions as d
from consistency.operators.comparisons import as_numbers
from consistency.operators.polynomials import of_numbers
from consistency.operators.powers import times_a_power_of_two

INF, NAN = math.inf, math.nan


def t(*numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("function", [torch.igamma, torch.igammac, torch.special.zeta])
@pytest.mark.parametrize("other", [0.0, 2.0, INF, -INF, NAN])
def test_nan_is_kept_in_either_place(function: Callable[..., Any], other: float) -> None:
    kept = d.nan_kept(function)
    assert kept(t(NAN), t(other)).isnan().all()
    assert kept(t(other), t(NAN)).isnan().all()


def test_nan_of_a_degree_is_left_alone() -> None:
    polynomial = d.nan_kept(lambda x, n: x + 0 * n.nan_to_num(), 1)
    assert polynomial(t(2.0, NAN), t(NAN, 1.0)).isnan().tolist() == [False, True]


def test_the_polynomial_of_degree_0_is_1_at_nan_too() -> None:
    polynomial = of_numbers(torch.special.chebyshev_polynomial_u)
    found = polynomial(t(NAN, NAN, 0.5, 0.5), t(0.0, 2.0, 0.0, 1.0))
    assert found.isnan().tolist() == [False, True, False, False]
    assert found[[0, 2, 3]].tolist() == [1.0, 1.0, 1.0]
    assert polynomial(t(NAN, 0.5), 1).isnan().tolist() == [True, False]


@pytest.mark.parametrize("degree", [NAN, INF, -INF, 1e300, -1.0])
def test_what_is_no_degree_gives_0_at_nan_as_elsewhere(degree: float) -> None:
    polynomial = of_numbers(torch.special.legendre_polynomial_p)
    assert polynomial(t(NAN, 0.5), t(degree, degree)).tolist() == [0.0, 0.0]


def test_nothing_else_is_changed_by_keeping_nan() -> None:
    x = torch.linspace(-4, 4, 33, dtype=torch.float64)
    assert torch.equal(d.nan_kept(torch.sign)(x), torch.sign(x))
    assert d.nan_kept(torch.sign)(torch.tensor([3, -2])).tolist() == [1, -1]


@pytest.mark.parametrize("s", [1.25, 2.0, 3.0, 20.0])
def test_zeta_vanishes_at_infinity(s: float) -> None:
    assert d.zeta(t(s), t(INF)).item() == 0.0
    assert float(mpmath.zeta(s, 1e30)) < 1e-6  # and falls: its limit is 0
    assert d.zeta(t(s), t(2.5)).item() == pytest.approx(float(mpmath.zeta(s, 2.5)), rel=1e-13)


def test_polygamma_at_infinity_and_at_poles() -> None:
    for n in (1, 2, 3, 4):
        end = d.polygamma(n, t(INF))
        near = mpmath.psi(n, mpmath.mpf(10) ** 30)
        assert end.item() == 0.0
        assert math.copysign(1.0, end.item()) == mpmath.sign(near)
    for n in (1, 3):
        assert d.polygamma(n, t(0.0, -1.0, -7.0)).tolist() == [INF] * 3
        for side in (1, -1):  # the limits of both sides agree
            assert mpmath.psi(n, -1 + side * mpmath.mpf(2) ** -30) > 1e15
    assert d.polygamma(2, t(3.0)).item() == pytest.approx(float(mpmath.psi(2, 3)), rel=1e-13)


def test_silu_vanishes_from_below() -> None:
    low = d.silu(t(-INF, -700.0, 1.0, NAN))
    assert low[0] == 0.0
    assert torch.signbit(low[0])
    assert torch.signbit(low[1])
    assert torch.equal(low[1:3], functional.silu(t(-700.0, 1.0)))
    assert low[3].isnan()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("ends", [(), (NAN,), (INF,), (INF, INF, NAN, NAN), (NAN, NAN)])
def test_places_are_numpys(ends: tuple[float, ...], right: bool) -> None:
    boundaries = t(-INF, -1.0, 0.0, 0.0, 2.5, *ends)
    values = t(-INF, -2.0, -1.0, 0.0, 1.0, 2.5, 3.0, INF, NAN)
    expected = np.searchsorted(boundaries.numpy(), values.numpy(), "right" if right else "left")
    assert d.searchsorted(boundaries, values, right=right).tolist() == expected.tolist()
    assert d.bucketize(values, boundaries, right=right).tolist() == expected.tolist()
    one = d.searchsorted(boundaries, 3.0, right=right, out_int32=True)
    assert (one.item(), one.dtype) == (expected[6], torch.int32)


def test_places_in_an_order_of_their_own() -> None:
    boundaries, order = t(NAN, 1.0, 3.0), torch.tensor([1, 2, 0])
    found = d.searchsorted(boundaries, t(0.0, 2.0, 4.0, NAN), sorter=order, side="left")
    assert found.tolist() == [0, 1, 2, 2]


def test_the_mean_beside_an_infinity() -> None:
    x = t([1.0, INF, 2.0], [1.0, 2.0, 6.0], [INF, -INF, 0.0])
    for moments, plain in ((d.std_mean, torch.std_mean), (d.var_mean, torch.var_mean)):
        spread, mean = moments(x, dim=1)
        assert mean[:2].tolist() == [INF, 3.0]
        assert mean[2].isnan()
        assert spread[1] == plain(x[1])[0]
        assert spread[0].isnan()
        assert moments(x, dim=1, keepdim=True)[1].shape == (3, 1)
        assert moments(x[0])[1] == INF


def test_bags_end_at_the_last_offset() -> None:
    weight, indices = t([1.0, 1.0], [5.0, 5.0], [9.0, 9.0]), torch.tensor([0, 1, 2, 2, 1])
    bags = {"offsets": torch.tensor([0, 2, 3]), "include_last_offset": True}
    mean = d.embedding_bag(indices, weight, mode="mean", **bags)
    assert mean.tolist() == [[3.0, 3.0], [9.0, 9.0]]
    scale = t(1.0, 1.0, 2.0, 3.0, 3.0)
    total = d.embedding_bag(indices, weight, mode="sum", per_sample_weights=scale, **bags)
    assert total.tolist() == [[6.0, 6.0], [18.0, 18.0]]
    plain = d.embedding_bag(indices, weight, torch.tensor([0, 2]))
    assert torch.equal(plain, functional.embedding_bag(indices, weight, torch.tensor([0, 2])))


@pytest.mark.parametrize("padding", [None, 2, -4])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags_by_how_often_a_row_comes(mode: str, padding: int | None) -> None:
    """Those without the option, divided by the number of times that the row itself comes."""
    indices, offsets = torch.tensor([3, 0, 0, 2, 0, 2, 3]), torch.tensor([0, 3, 3])
    found = []
    for scaled in (True, False):
        weight = torch.arange(8.0, dtype=torch.float64).reshape(4, 2).requires_grad_()
        bags = d.embedding_bag(
            indices, weight, offsets, mode=mode, padding_idx=padding, scale_grad_by_freq=scaled
        )
        bags.backward(t([1.0, 2.0], [4.0, 8.0], [3.0, 5.0]))
        found.append((bags, weight.grad))
    often = t(3.0, 1.0, 2.0, 2.0).reshape(4, 1)
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1] / often, rtol=1e-15, atol=0.0)


def test_weights_of_bags_have_gradients_that_no_frequency_divides() -> None:
    indices, table = torch.tensor([[1, 1], [0, 1]]), t([1.0, 2.0], [3.0, 5.0])
    weight, scale = table.requires_grad_(), torch.ones(2, 2, dtype=table.dtype).requires_grad_()
    bags = d.embedding_bag(
        indices, weight, mode="sum", per_sample_weights=scale, scale_grad_by_freq=True
    )
    bags.sum().backward()
    assert scale.grad.tolist() == [[8.0, 8.0], [3.0, 8.0]]
    assert weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_bessels_functions_have_their_limits() -> None:
    ends = torch.tensor([torch.inf, -torch.inf, 1.0])
    odd = d.with_limits(torch.special.modified_bessel_i1, torch.inf, -torch.inf)
    assert odd(ends)[:2].tolist() == [torch.inf, -torch.inf]
    assert odd(ends)[2] == torch.special.modified_bessel_i1(torch.tensor(1.0))


def test_whole_numbers_are_compared_by_what_they_are() -> None:
    small = torch.tensor([44, 200], dtype=torch.uint8)
    assert as_numbers("lt")(small, 300).tolist() == [True, True]
    assert as_numbers("lt")(small, torch.tensor(-3, dtype=torch.int8)).tolist() == [False, False]


def test_ldexp_in_two_steps_reaches_beyond_the_power() -> None:
    smallest = torch.tensor([2.0**-1022], dtype=torch.float64)
    exponent = torch.tensor([1025.0], dtype=torch.float64)
    assert times_a_power_of_two(smallest, exponent).item() == 8.0


@pytest.mark.parametrize("keys", [3, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_a_query_of_nan_has_no_attention(keys: int, causal: bool) -> None:
    """Whatever the length; other rows, masks of numbers and gradients stay torch's."""
    query, key, value = (
        torch.arange(float(n * 4), dtype=torch.float64).reshape(1, 1, n, 4) / 50
        for n in (5, keys, keys)
    )
    plain = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    query[0, 0, 2, 1] = NAN
    query.requires_grad_()
    result = d.attention(query, key, value, is_causal=causal)
    assert result.isnan().all(-1).flatten().tolist() == [False, False, True, False, False]
    torch.testing.assert_close(result[0, 0, [0, 1, 3, 4]], plain[0, 0, [0, 1, 3, 4]])
    result[0, 0, 3].sum().backward()
    assert query.grad is not None
