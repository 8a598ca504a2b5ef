"""Products of matrices and convolutions beside mpmath."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.reference.certified.traced_truths import (
    COUNTS,
    Row,
    check_slopes,
    check_values,
    elements,
)

Strides = tuple[int, ...]


def convolved(
    x: Any, w: Any, stride: Strides, padding: Strides, dilation: Strides, groups: int = 1
) -> Any:
    """The definition, index by index."""
    batch, _, *size = x.shape
    outside, inside, *kernel = w.shape
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    ]
    made = np.empty((batch, outside, *out), dtype=object)
    for n, c, *place in np.ndindex(*made.shape):
        group, total = c // (outside // groups), 0
        for i, *offset in np.ndindex(inside, *kernel):
            at = [
                o * s - p + k * d
                for o, s, p, k, d in zip(place, stride, padding, offset, dilation, strict=True)
            ]
            if all(0 <= a < m for a, m in zip(at, size, strict=True)):
                total = total + x[(n, group * inside + i, *at)] * w[(c, i, *offset)]
        made[(n, c, *place)] = total
    return made


def spread(
    x: Any,
    w: Any,
    stride: Strides,
    padding: Strides,
    dilation: Strides,
    more: Strides,
    groups: int = 1,
) -> Any:
    """The transpose: every element of the image is written in the shape of the kernel."""
    batch, inside, *size = x.shape
    _, each, *kernel = w.shape
    steps = zip(size, kernel, stride, padding, dilation, more, strict=True)
    out = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in steps]
    made = np.zeros((batch, each * groups, *out), dtype=object)
    for n, c, *place in np.ndindex(*x.shape):
        for j, *offset in np.ndindex(each, *kernel):
            at = [
                o * s - p + k * d
                for o, s, p, k, d in zip(place, stride, padding, offset, dilation, strict=True)
            ]
            if all(0 <= a < m for a, m in zip(at, out, strict=True)):
                index = (n, c // (inside // groups) * each + j, *at)
                made[index] = made[index] + x[(n, c, *place)] * w[(c, j, *offset)]
    return made


def bilinear(x: Any, y: Any, w: Any) -> Any:
    return np.array(
        [
            [
                sum(x[n, i] * w[o, i, j] * y[n, j] for i in range(3) for j in range(2))
                for o in range(4)
            ]
            for n in range(2)
        ]
    )


def columns(x: Any) -> Any:
    """Windows of 2 × 2, one apart."""
    window = itertools.product(range(2), range(2), range(2))
    made = [
        [x[0, c, i + a, j + b] for i, j in itertools.product(range(2), range(3))]
        for c, a, b in window
    ]
    return np.array(made, dtype=object)


ADDMM = partial(torch.addmm, beta=0.3, alpha=-1.7)
ROWS = [
    Row("matmul", torch.matmul, np.matmul, [(2, 5), (5, 3)]),
    Row("matmul of batches", torch.matmul, np.matmul, [(2, 1, 2, 3), (4, 3, 2)]),
    Row("mv", torch.mv, np.matmul, [(3, 4), (4,)]),
    Row("dot", torch.dot, np.dot, [(9,), (9,)]),
    Row("outer", torch.outer, np.outer, [(3,), (4,)]),
    Row("addmm", ADDMM, lambda a, x, y: a * 0.3 + (x @ y) * -1.7, [(2, 2), (2, 4), (4, 2)]),
    Row("baddbmm", torch.baddbmm, lambda a, x, y: a + x @ y, [(2, 2, 2), (2, 2, 3), (2, 3, 2)]),
    Row("einsum", lambda x, y: torch.einsum("bij,bkj->bik", x, y), lambda x, y: x @ y.transpose(0,
    2, 1), [(2, 3, 4), (2, 2, 4)]),
    Row("kron", torch.kron, np.kron, [(2, 2), (2, 3)]),
    Row("bilinear", F.bilinear, bilinear, [(2, 3), (2, 2), (4, 3, 2)], "some"),
    Row("conv1d", F.conv1d, lambda x, w: convolved(x, w, (1,), (0,), (1,)), [(1, 2, 7), (3, 2, 3)]),
    Row(
        "conv2d",
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        lambda x, w: convolved(x, w, (2, 1), (1, 2), (1, 2), 2),
        [(2, 4, 4, 5), (2, 2, 2, 3)],
        "some",
    ),
    Row("conv3d", F.conv3d, lambda x, w: convolved(x, w, (1,) * 3, (0,) * 3, (1,) * 3), [(1, 1, 3,
    3, 3), (2, 1, 2, 2, 2)], "some"),
    Row(
        "conv_transpose2d",
        lambda x, w: F.conv_transpose2d(x, w, stride=(2, 3), padding=(1, 0), output_padding=(1, 2),
        groups=2, dilation=(1, 2)),
        lambda x, w: spread(x, w, (2, 3), (1, 0), (1, 2), (1, 2), 2),
        [(1, 4, 2, 3), (4, 2, 2, 2)],
        "some",
    ),
    Row("unfold", lambda x: F.unfold(x, 2), columns, [(1, 2, 3, 4)]),
]  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_values(row: Row, count: int) -> None:
    check_values(row, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_slopes(row: Row, count: int) -> None:
    check_slopes(row, count)


def test_whole_numbers() -> None:
    x = torch.tensor([[2**40, 3], [5, 7]])
    assert elements(torch.matmul, x, x) == (x @ x).reshape(-1).tolist()
    image, kernel = torch.arange(12).reshape(1, 1, 12), torch.tensor([[[2**62, -1, 2]]])
    assert elements(F.conv1d, image, kernel) == F.conv1d(image, kernel).reshape(-1).tolist()


def test_a_summand_that_is_multiplied_by_zero_is_not_looked_at() -> None:
    a, x = (
        torch.full((1, 1), float("nan"), dtype=torch.float64),
        torch.ones(1, 1, dtype=torch.float64),
    )
    assert elements(lambda: torch.addmm(a, x, x, beta=0)) == [1.0]


def test_fold_adds_windows_that_overlap() -> None:
    blocks = torch.arange(1.0, 17.0, dtype=torch.float64).reshape(1, 4, 4)
    assert (
        elements(lambda b: F.fold(b, (3, 3), 2), blocks)
        == F.fold(blocks, (3, 3), 2).reshape(-1).tolist()
    )
