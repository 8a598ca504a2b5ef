"""Scans beside mpmath."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np
import pytest
import torch

from consistency.reference.certified import balls
from consistency.reference.certified.nodes import everything
from tests.reference.certified.traced_truths import (
    COUNTS,
    Row,
    check_slopes,
    check_values,
    elements,
    exp,
    log,
)
from tests.reference.certified.traces import gradient_nodes

NAN, INF = math.nan, math.inf


def running(step: Any) -> Any:
    return lambda x: np.array([list(itertools.accumulate(row, step)) for row in x], dtype=object)


def areas(x: Any) -> Any:
    return ((x[:, 1:] + x[:, :-1]) / 2).sum(1)


ROWS = [
    Row("cumsum", lambda x: x.cumsum(1), running(operator.add), [(2, 7)]),
    Row("cumsum of columns", lambda x: x.cumsum(0), lambda x: running(operator.add)(x.T).T,
        [(5, 2)]),
    Row("cumprod", lambda x: x.cumprod(1), running(operator.mul), [(2, 6)], "some"),
    Row("logcumsumexp", lambda x: x.logcumsumexp(1), lambda x: log(running(operator.add)(exp(x))),
        [(2, 6)], "some"),
    Row("cummax", lambda x: x.cummax(1), running(max), [(2, 7)], "some"),
    Row("cummin", lambda x: x.cummin(1), running(min), [(2, 7)], "some"),
    Row("diff", lambda x: x.diff(n=2), lambda x: np.diff(np.diff(x)), [(2, 7)]),
    Row("trapezoid", lambda x: torch.trapezoid(x, dim=1), areas, [(3, 5)]),
]  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_values(row: Row, count: int) -> None:
    check_values(row, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_slopes(row: Row, count: int) -> None:
    check_slopes(row, count)


def slopes(call: Any, data: list[float]) -> list[float]:
    """Of the sum of all results."""
    (found,), _ = gradient_nodes(call, torch.ones_like, torch.tensor(data, dtype=torch.float64))
    with balls.precision(128):
        return [
            v if isinstance(v, float) else float(v.mid()) for v in everything(found).reshape(-1)
        ]


def test_zeros_among_factors() -> None:
    assert slopes(lambda x: x.cumprod(0), [2.0, 0.0, 3.0, 5.0]) == [1.0, 2.0 + 6.0 + 30.0, 0.0, 0.0]
    assert slopes(lambda x: x.cumprod(0), [2.0, 0.0, 3.0, 0.0]) == [1.0, 8.0, 0.0, 0.0]
    assert slopes(torch.prod, [2.0, 0.0, 3.0]) == [0.0, 6.0, 0.0]
    assert slopes(torch.prod, [0.0, 0.0, 3.0]) == [0.0, 0.0, 0.0]


def test_ties() -> None:
    assert slopes(lambda x: x.amax(), [1.0, 3.0, 3.0]) == [0.0, 0.5, 0.5]
    assert slopes(lambda x: x.max(0).values, [1.0, 3.0, 3.0]) == [0.0, 1.0, 0.0]
    assert slopes(lambda x: x.norm(), [0.0, 0.0]) == [0.0, 0.0]
    assert slopes(lambda x: torch.linalg.vector_norm(x, math.inf), [-2.0, 2.0, 1.0]) == [
        -0.5,
        0.5,
        0.0,
    ]
    assert slopes(lambda x: torch.linalg.vector_norm(x, 1), [-2.0, 0.0]) == [-1.0, 0.0]
    assert slopes(lambda x: torch.linalg.vector_norm(x, 3), [-2.0, 0.0]) == [-1.0, 0.0]


def test_beside_nan_no_gradient_of_a_norm_is_0() -> None:
    for order in (1.5, 2.0, 3.0):
        found = slopes(lambda x, p=order: torch.linalg.vector_norm(x, p), [0.0, NAN, 2.0])
        assert all(math.isnan(v) for v in found), order


@pytest.mark.parametrize("call", [
    torch.cumsum, torch.cumprod, torch.logcumsumexp, lambda x, d: x.cummax(d),
    lambda x, d: x.cummin(d),
])  # fmt: skip
@pytest.mark.parametrize(
    "data",
    [[1.0, NAN, 2.0], [1.0, INF, 2.0, -INF, 0.0], [-INF, -INF, INF], [0.0, -0.0, 0.0], [2.0, INF]],
)
def test_special_cases(call: Any, data: list[float]) -> None:
    x = torch.tensor(data, dtype=torch.float64)
    wanted = call(x, 0)
    wanted = (wanted if isinstance(wanted, torch.Tensor) else wanted[0]).tolist()
    for a, b in zip(elements(call, x, 0), wanted, strict=True):
        assert (a != a and b != b) or float(getattr(a, "mid", lambda v=a: v)()) == pytest.approx(
            b, rel=1e-15
        )


def test_places_of_extremes() -> None:
    for data in ([3.0, 1.0, 3.0, 2.0, 4.0], [1.0, NAN, 5.0, NAN], [2.0, 2.0, 2.0]):
        x = torch.tensor(data, dtype=torch.float64)
        for name in ("cummax", "cummin"):
            assert (
                elements(lambda t, n=name: getattr(t, n)(0).indices, x)
                == getattr(x, name)(0).indices.tolist()
            )
