"""Backends that multiply matrices in a known way; everything else is torch's on the CPU.

A way of multiplying is a function ``(a, b) → c`` of float64 arrays, (M, K) and (K, N), that hold
numbers of the tested dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import consistency

from .rounding import Array, Round, exactly, nearest_even, to_odd

Way = Callable[[Array, Array], Array]
PRODUCTS = ("matmul", "mm", "bmm", "nn.functional.linear", "nn.functional.conv2d", "addmm")


class Products(consistency.Backend):
    """Every product of matrices in one way, per dtype: ``Products("tf32", {"float32": way})``;
    other dtypes as torch does.

    ``way`` may also be chosen by shape: ``choose(dtype, m, k, n)`` returns one, or None for torch's
    own.
    """

    def __init__(
        self,
        name: str,
        ways: Mapping[str, Way],
        choose: Callable[[str, int, int, int], Way | None] | None = None,
    ) -> None:
        self.name = name
        self.ways = dict(ways)
        self.choose = choose or (lambda dtype, m, k, n: self.ways.get(dtype))

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if operator.name not in PRODUCTS or (operator.name == "matmul" and args[0].ndim == 1):
            return super().call(operator, args, kwargs)
        found = self._product(operator.name, list(args), dict(kwargs))
        return super().call(operator, args, kwargs) if found is None else found

    def _product(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor | None:
        if name == "nn.functional.conv2d":
            return self._convolution(args, kwargs)
        if name == "addmm":
            start, a, b = args[:3]
            found = self._multiplied(a, b)
            return None if found is None else (found + start).to(a.dtype)
        a, b = args[:2]
        if name == "nn.functional.linear":
            bias = args[2] if len(args) > 2 else kwargs.get("bias")
            found = self._multiplied(a.reshape(-1, a.shape[-1]), b.T)
            if found is None:
                return None
            found = found.reshape(*a.shape[:-1], b.shape[0])
            return found if bias is None else found + bias
        if a.ndim == 3:
            parts = [self._multiplied(x, y) for x, y in zip(a, b, strict=True)]
            return (
                None
                if any(p is None for p in parts)
                else torch.stack([p for p in parts if p is not None])
            )
        return self._multiplied(a, b)

    def _convolution(self, args: list[Any], kwargs: dict[str, Any]) -> torch.Tensor | None:
        x, weight = args[:2]
        bias, stride, padding = (*args[2:5], *([None, 1, 0][len(args) - 2 :]))
        stride, padding = kwargs.get("stride", stride), kwargs.get("padding", padding)
        if (
            kwargs.get("groups", 1) != 1
            or kwargs.get("dilation", 1) not in (1, (1, 1))
            or len(args) > 5
        ):
            return None
        columns = torch.nn.functional.unfold(
            x, weight.shape[2:], padding=padding, stride=stride
        )  # (batch, K, places)
        batch, k, places = columns.shape
        found = self._multiplied(
            columns.transpose(1, 2).reshape(-1, k), weight.reshape(weight.shape[0], k).T
        )
        if found is None:
            return None
        sides = [
            (x.shape[i] + 2 * _pair(padding, i) - weight.shape[i]) // _pair(stride, i) + 1
            for i in (2, 3)
        ]
        found = found.reshape(batch, places, -1).transpose(1, 2).reshape(batch, -1, *sides)
        bias = kwargs.get("bias", bias)
        return found if bias is None else found + bias.reshape(1, -1, 1, 1)

    def _multiplied(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        name = str(a.dtype).removeprefix("torch.")
        way = self.choose(name, a.shape[0], a.shape[1], b.shape[1])
        if way is None or not a.dtype.is_floating_point:
            return None
        return torch.from_numpy(np.array(way(a.double().numpy(), b.double().numpy()))).to(a.dtype)


def _pair(value: Any, i: int) -> int:
    return int(value if isinstance(value, int) else value[i - 2])


def one_after_another(
    operand: Round = exactly,
    product: Round | None = None,
    total: Round | None = None,
    *,
    lanes: int = 1,
    block: int = 0,
) -> Way:
    """Terms in the order of k: operands rounded, the product (``None``: exact, as with FMA), then
    the running sum (float32).

    ``lanes`` running sums take turns and are added pairwise at the end; ``block``: sums over so
    many terms are added up again.
    """
    keep = total or nearest_even(24)

    def way(a: Array, b: Array) -> Array:
        a, b = operand(a), operand(b)
        k = a.shape[1]
        blocks = (
            [slice(i, min(i + block, k)) for i in range(0, k, block)] if block else [slice(0, k)]
        )
        return _folded(
            [_lanes(a[:, s], b[s], product or exactly, keep, lanes) for s in blocks], keep
        )

    return way


def _lanes(a: Array, b: Array, product: Round, keep: Round, lanes: int) -> Array:
    sums = np.zeros((lanes, a.shape[0], b.shape[1]))
    for k in _used(a, b):
        sums[k % lanes] = keep(to_odd(sums[k % lanes], product(a[:, k, None] * b[k])))
    parts = list(sums)
    while len(parts) > 1:
        parts = [keep(to_odd(parts[i], parts[i + len(parts) // 2])) for i in range(len(parts) // 2)]
    return parts[0]


def _folded(parts: Sequence[Array], keep: Round) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = keep(to_odd(total, part))
    return total


def in_float64(a: Array, b: Array) -> Array:
    """Summed up in float64, one after another."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for k in _used(a, b):
        total = total + a[:, k, None] * b[k]
    return total


def _used(a: Array, b: Array) -> list[int]:
    """The k whose terms are not all zero: the others change no sum."""
    return [int(k) for k in np.flatnonzero(a.any(axis=0) & b.any(axis=1))]


def split(parts: int, dropped: bool = True) -> Way:
    """Factors as sums of two or three bfloat16 numbers, products in float32; ``dropped``: those of
    small parts are left out."""
    short, keep = nearest_even(8), nearest_even(24)

    def way(a: Array, b: Array) -> Array:
        def pieces(x: Array) -> list[Array]:
            found = []
            for _ in range(parts):
                found.append(short(x))
                x = x - found[-1]
            return found

        left, right = pieces(a), pieces(b)
        total = np.zeros((a.shape[0], b.shape[1]))
        pairs = [(i, j) for i in range(parts) for j in range(parts) if not dropped or i + j < parts]
        for i, j in sorted(pairs, key=lambda pair: -sum(pair)):
            for k in _used(left[i], right[j]):
                total = keep(to_odd(total, left[i][:, k, None] * right[j][k]))
        return total

    return way


def kahan(bits: int = 24) -> Way:
    """One after another with Kahan's compensation."""
    keep = nearest_even(bits)

    def way(a: Array, b: Array) -> Array:
        total = np.zeros((a.shape[0], b.shape[1]))
        lost = np.zeros_like(total)
        for k in _used(a, b):
            term = keep(to_odd(a[:, k, None] * b[k], -lost))
            grown = keep(to_odd(total, term))
            lost = keep(keep(grown - total) - term)
            total = grown
        return total

    return way


def fused(terms: int, guard: int, operand: Round = exactly, bits: int = 24) -> Way:
    """As matrix units do: ``terms`` products and the running sum are aligned to the largest of
    them, cut off ``guard`` bits below a

    sum of ``bits`` bits, added exactly, and the sum is cut to ``bits`` bits."""

    def way(a: Array, b: Array) -> Array:
        a, b = operand(a), operand(b)
        total = np.zeros((a.shape[0], b.shape[1]))
        for start in range(0, a.shape[1], terms):
            stop = min(start + terms, a.shape[1])
            if not a[:, start:stop].any() or not b[start:stop].any():
                continue
            together = np.stack([total, *(a[:, k, None] * b[k] for k in range(start, stop))])
            largest = np.frexp(np.abs(together).max(axis=0))[1]
            aligned = np.trunc(np.ldexp(together, bits + guard - largest))
            added = np.ldexp(aligned.sum(axis=0), largest - bits - guard)
            mantissa, exponent = np.frexp(added)
            total = np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits)
        return total

    return way
