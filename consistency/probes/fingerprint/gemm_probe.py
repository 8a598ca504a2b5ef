"""Sums of products through matmul, linear, bmm and conv2d with one interface: a probe passes rows
of the factors and gets the sums.

The shape selects the kernel, so all rows of one question use one (M, K, N), padded with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .query import Ask, NotAnswered, Request, call, doubles, numbers

Array = npt.NDArray[np.float64]
WINDOW = 3  # conv2d: 3 × 3 with stride 3, so that no two results share an input


@dataclass(frozen=True, slots=True)
class Shape:
    """(M, K) · (K, N); K is a multiple of 9, the size of conv2d's window."""

    m: int
    k: int
    n: int

    def __str__(self) -> str:
        return f"{self.m}×{self.k}×{self.n}"


# One aligned shape and one unaligned, since kernels are selected by alignment and size.
EVEN, ODD = Shape(128, 288, 32), Shape(33, 279, 17)
SHAPES = (EVEN, ODD)


def _matmul(dtype: str, a: torch.Tensor, b: torch.Tensor) -> Request:
    return call("matmul", dtype, a, b)


def _linear(dtype: str, a: torch.Tensor, b: torch.Tensor) -> Request:
    return call("nn.functional.linear", dtype, a, b.T.contiguous())


def _bmm(dtype: str, a: torch.Tensor, b: torch.Tensor) -> Request:
    return call(
        "bmm", dtype, a.expand(2, *a.shape).contiguous(), b.expand(2, *b.shape).contiguous()
    )


def _conv2d(dtype: str, a: torch.Tensor, b: torch.Tensor) -> Request:
    (m, k), n = a.shape, b.shape[1]
    high = next(h for h in range(math.isqrt(m), 0, -1) if m % h == 0)
    channels = k // WINDOW**2
    image = a.reshape(high, m // high, channels, WINDOW, WINDOW).permute(2, 0, 3, 1, 4)
    image = image.reshape(1, channels, high * WINDOW, m // high * WINDOW).contiguous()
    weight = b.T.reshape(n, channels, WINDOW, WINDOW).contiguous()
    return call("nn.functional.conv2d", dtype, image, weight, stride=WINDOW)


FORMS: dict[str, Callable[[str, torch.Tensor, torch.Tensor], Request]] = {
    "matmul": _matmul, "linear": _linear, "bmm": _bmm, "conv2d": _conv2d,
}  # fmt: skip
OPERATORS = {
    "matmul": "matmul",
    "linear": "nn.functional.linear",
    "bmm": "bmm",
    "conv2d": "nn.functional.conv2d",
}


def request(form: str, dtype: str, a: torch.Tensor, b: torch.Tensor) -> Request:
    """The call of ``form`` that multiplies ``a`` (M, K) by ``b`` (K, N)."""
    return FORMS[form](dtype, a, b)


def result(form: str, answer: torch.Tensor, m: int, n: int) -> torch.Tensor:
    """The result as a matrix (M, N). Raises NotAnswered if it has another size."""
    if answer.numel() != m * n * (2 if form == "bmm" else 1) or not answer.is_floating_point():
        raise NotAnswered(
            f"{form}: {tuple(answer.shape)} {str(answer.dtype).removeprefix('torch.')} came back"
        )
    if form == "bmm":
        return answer[1]
    return answer.reshape(n, m).T if form == "conv2d" else answer


class GemmProbe:
    """One form and dtype at one shape. All results are converted to float64, which is exact."""

    def __init__(self, ask: Ask, form: str, dtype: str, shape: Shape = EVEN) -> None:
        self.ask, self.form, self.dtype, self.shape = ask, form, dtype, shape

    def rows(self, left: Array, right: Array) -> Array:
        """The sums of ``left`` (T, K) times one vector ``right`` (K,), for any T: an array (T, N)
        of N equal columns."""
        b = np.repeat(right[:, None], self.shape.n, axis=1)
        return self._concatenated_sums([(block, b) for block in _blocks(left, self.shape.m)])[
            : len(left)
        ]

    def columns(self, left: Array, right: Array) -> Array:
        """The sums of one vector ``left`` (K,) times ``right`` (T, K): an array (T, M) of M equal
        columns."""
        a = np.repeat(left[None], self.shape.m, axis=0)
        blocks = _blocks(right, self.shape.n)
        return self._concatenated_sums([(a, block.T) for block in blocks], transposed=True)[
            : len(right)
        ]

    def grid(self, left: Array, right: Array) -> Array:
        """The sums of each row of ``left`` (T, K) times each row of ``right`` (U, K): an array
        (T, U). Both must fit the shape."""
        sums = self._sums([(_padded(left, self.shape.m), _padded(right, self.shape.n).T)])[0]
        return sums[: len(left), : len(right)]

    def _concatenated_sums(
        self, pairs: list[tuple[Array, Array]], transposed: bool = False
    ) -> Array:
        return np.concatenate([c.T if transposed else c for c in self._sums(pairs)])

    def _sums(self, pairs: list[tuple[Array, Array]]) -> list[Array]:
        """Raises NotAnswered, also for a result of another size."""
        requests = [
            request(self.form, self.dtype, numbers(a, self.dtype), numbers(b, self.dtype))
            for a, b in pairs
        ]
        m, n = self.shape.m, self.shape.n
        return [doubles(result(self.form, answer, m, n)) for answer in self.ask.many(requests)]


def _blocks(rows: Array, size: int) -> list[Array]:
    return [_padded(rows[i : i + size], size) for i in range(0, len(rows), size)]


def _padded(rows: Array, size: int) -> Array:
    return (
        np.concatenate([rows, np.zeros((size - len(rows), rows.shape[1]))])
        if len(rows) < size
        else rows
    )


def at(slots: tuple[int, ...], values: Array, k: int) -> Array:
    """Rows (T, K) that hold ``values`` (T, len(slots)) in the given slots, and zeros elsewhere."""
    rows = np.zeros((len(values), k))
    rows[:, slots] = values
    return rows
