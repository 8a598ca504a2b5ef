"""Sums, products, moments, norms and extremes beside mpmath."""

from __future__ import annotations

import math
import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from consistency.reference.certified.nodes import everything
from tests.reference.certified.traced_truths import (
    COUNTS,
    Row,
    check_slopes,
    check_values,
    elements,
    exp,
    log,
    power,
    sqrt,
)
from tests.reference.certified.traces import followed

SHAPE = [(3, 5)]
NAN, INF = math.nan, math.inf


def variance(x: Any, correction: int) -> Any:
    mean = x.sum(1, keepdims=True) / mpmath.mpf(x.shape[1])
    return ((x - mean) * (x - mean)).sum(1) / mpmath.mpf(x.shape[1] - correction)


def norm(p: float) -> Any:
    return lambda x: power(power(abs(x), p).sum(1), 1 / mpmath.mpf(p))


def logsumexp(x: Any) -> Any:
    return log(exp(x).sum(1))


ROWS = [
    Row("sum", lambda x: x.sum(1), lambda x: x.sum(1), SHAPE),
    Row("sum of all", lambda x: x.sum(), lambda x: x.sum(), [(2, 3, 4)]),
    Row("mean", lambda x: x.mean(0), lambda x: x.sum(0) / mpmath.mpf(3), SHAPE),
    Row("nansum", lambda x: x.nansum(1), lambda x: x.sum(1), SHAPE),
    Row("prod", lambda x: x.prod(1), lambda x: x.prod(1), SHAPE, "some"),
    Row("prod of all", lambda x: x.prod(), lambda x: x.prod(), [(7,)], "some"),
    Row("trace", torch.trace, lambda x: sum(x[i, i] for i in range(3)), SHAPE),
    Row("var", lambda x: x.var(1), lambda x: variance(x, 1), SHAPE),
    Row("var of few bits", lambda x: x.var(1, correction=0), lambda x: variance(x, 0), SHAPE,
    "alike"),
    Row("std", lambda x: x.std(1, correction=2), lambda x: sqrt(variance(x, 2)), SHAPE, "alike"),
    Row("var_mean", lambda x: torch.var_mean(x, 1), lambda x: variance(x, 1), SHAPE),
    Row("norm", lambda x: x.norm(2, 1), lambda x: sqrt((x * x).sum(1)), SHAPE, "some"),
    *(
        Row(f"norm of order {p}", lambda x, p=p: torch.linalg.vector_norm(x, p, 1), norm(p), SHAPE,
        "some")
        for p in (1, 3, 0.5, 2.5, -1.5)
    ),
    Row("dist", lambda x, y: torch.dist(x, y, 3), lambda x, y: norm(3)((x - y)[None]), [(4,), (4,)],
    "some"),
    Row("amax", lambda x: x.amax(1), lambda x: np.array([max(row) for row in x]), SHAPE),
    Row("max", lambda x: x.max(1), lambda x: np.array([max(row) for row in x]), SHAPE, "some"),
    Row("min of all", lambda x: x.min(), lambda x: min(x.reshape(-1)), SHAPE, "some"),
    Row("argmin", lambda x: x.argmin(1), lambda x: [list(row).index(min(row)) for row in x], SHAPE,
    slope=False),
    Row("logsumexp", lambda x: x.logsumexp(1), logsumexp, SHAPE, "some"),
]  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_values(row: Row, count: int) -> None:
    check_values(row, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.slope and row.numbers != "any"], ids=repr
)
def test_slopes(row: Row, count: int) -> None:
    check_slopes(row, count)


def same(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a != a and b != b) or (
            a == b and (b or math.copysign(1.0, float(a)) == math.copysign(1.0, b))
        ), (found, wanted)


@pytest.mark.parametrize(("call", "data", "wanted"), [
    (torch.sum, [1.0, INF, 2.0], [INF]),
    (torch.sum, [-INF, INF], [NAN]),
    (torch.sum, [], [0.0]),
    (torch.prod, [], [1.0]),
    (torch.prod, [INF, 0.0], [NAN]),
    (torch.nansum, [NAN, 1.0, NAN], [1.0]),
    (torch.nansum, [NAN], [0.0]),
    (torch.amax, [1.0, NAN, 3.0], [NAN]),
    (torch.argmax, [1.0, NAN, NAN, 9.0], [1]),
    (torch.argmin, [2.0, 1.0, 1.0], [1]),
    (torch.all, [1.0, NAN], [True]),
    (torch.any, [0.0, -0.0], [False]),
    (torch.count_nonzero, [0.0, NAN, -0.0, 2.0], [2]),
    (lambda x: torch.linalg.vector_norm(x, 0), [0.0, NAN, 3.0], [2.0]),
    (lambda x: torch.linalg.vector_norm(x, -INF), [-3.0, 2.0, INF], [2.0]),
    (lambda x: torch.linalg.vector_norm(x, -1), [0.0, 2.0], [0.0]),
    (lambda x: torch.linalg.vector_norm(x, 2), [INF, 2.0], [INF]),
    (lambda x: x.logsumexp(0), [-INF, -INF], [-INF]),
    (lambda x: x.logsumexp(0), [1.0, INF], [INF]),
    (lambda x: x.var(0, correction=1), [4.0], [NAN]),
    (lambda x: x.var(0, correction=0), [1.0, INF], [NAN]),
    (lambda x: x.std(0), [3.0, 3.0], [0.0]),
])  # fmt: skip
def test_special_cases(call: Any, data: list[float], wanted: list[Any]) -> None:
    x = torch.tensor(data, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no degrees of freedom
        same(elements(call, x), wanted)
        same([call(x).item()], wanted)


@pytest.mark.parametrize("function", [torch.any, torch.all])
def test_truths_over_no_dimensions_are_those_of_each_element(function: Any) -> None:
    """Unlike a sum, which is that of all."""
    x = torch.tensor([0.0, 2.0, NAN], dtype=torch.float64)
    same(elements(lambda x: function(x, dim=[]), x), [False, True, True])
    assert function(x, dim=[]).tolist() == [False, True, True]


def test_whole_numbers_wrap() -> None:
    x = torch.tensor([2**62, 2**62, 2**62], dtype=torch.int64)
    assert elements(torch.sum, x) == [x.sum().item()] == [3 * 2**62 - 2**64]
    assert elements(torch.prod, torch.tensor([2**40, 2**40 + 1])) == [2**40]
    assert elements(lambda t: t.sum(dtype=torch.int8), torch.full((200,), 1, dtype=torch.int8)) == [
        -56
    ]
    assert elements(torch.mean, torch.tensor([True, False, False, False]).double()) == [0.25]
    assert elements(torch.sum, torch.tensor([True, True, False])) == [2]


def test_complex_sums_and_products() -> None:
    x = torch.tensor([1.5 + 2j, -0.25 + 1j, 3 - 1j], dtype=torch.complex128)
    for call in (torch.sum, torch.prod, torch.linalg.vector_norm, torch.var):
        out, trace = followed(call, x)
        made = trace.node(out)
        parts = [made.re, made.im] if out.is_complex() else [made]
        found = [float(everything(part).item().mid()) for part in parts]
        numbers = [out.real.item(), out.imag.item()] if out.is_complex() else [out.item()]
        assert found == pytest.approx(numbers, rel=1e-15)
