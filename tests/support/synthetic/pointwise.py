"""Backends that differ from the CPU in one thing: subnormal numbers, division, widths, the order of
sums, what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

import consistency

_INTS = {
    torch.float32: torch.int32,
    torch.float64: torch.int64,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def tensors(args: Any) -> list[torch.Tensor]:
    if isinstance(args, torch.Tensor):
        return [args]
    return [t for item in args for t in tensors(item)] if isinstance(args, (list, tuple)) else []


def each(args: Any, change: Any) -> Any:
    """``args`` with every tensor changed."""
    if isinstance(args, torch.Tensor):
        return change(args)
    return type(args)(each(item, change) for item in args) if type(args) in (list, tuple) else args


def flushed(x: torch.Tensor) -> torch.Tensor:
    """Subnormal numbers become zeros of their sign; bits only, so that no mode of the processor
    matters."""
    if x.dtype not in _INTS:
        return x
    words, digits = (
        x.contiguous().view(_INTS[x.dtype]),
        {torch.float32: 23, torch.float64: 52, torch.float16: 10, torch.bfloat16: 7},
    )
    sign = torch.iinfo(words.dtype).min
    small = (words & ~sign) >> digits[x.dtype] == 0
    return torch.where(small, words & sign, words).view(x.dtype).reshape(x.shape)


class Flushing(consistency.Backend):
    """Takes subnormal inputs for zero (``daz``), or subnormal results (``ftz``), in the named
    operators, or in all (None)."""

    def __init__(
        self,
        name: str,
        *,
        daz: bool = False,
        ftz: bool = False,
        operators: Sequence[str] | None = None,
    ) -> None:
        self.name, self.daz, self.ftz, self.operators = name, daz, ftz, operators

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if self.operators is not None and operator.name not in self.operators:
            return super().call(operator, args, kwargs)
        args = each(list(args), flushed) if self.daz else args
        result = super().call(operator, args, kwargs)
        return each(result, flushed) if self.ftz else result


class FlushingThread(consistency.Backend):
    """Flushes in the first half of long tensors only, as where a mode is set in one thread and not
    in the others."""

    name = "flushes in one thread"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        if (
            operator.name in ("add", "mul", "div")
            and isinstance(result, torch.Tensor)
            and result.numel() > 1000
        ):
            half = result.numel() // 2
            return torch.cat(
                [flushed(result.reshape(-1)[:half]), result.reshape(-1)[half:]]
            ).reshape(result.shape)
        return result


class Approximate(consistency.Backend):
    """a/b as a·(1/b), √x as x·(1/√x), in float32."""

    name = "approximate"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if operator.name == "div" and args[0].dtype == torch.float32:
            return args[0] * torch.reciprocal(torch.as_tensor(args[1], dtype=torch.float32))
        if operator.name == "sqrt" and args[0].dtype == torch.float32:
            return args[0] * (1.0 / args[0].double().sqrt()).float()
        return super().call(operator, args, kwargs)


class Exact(consistency.Backend):
    """Division and square root correctly rounded in float32, by way of float64."""

    name = "exact"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if operator.name == "sqrt" and args[0].dtype == torch.float32:
            return torch.from_numpy(np.sqrt(args[0].numpy()))
        return super().call(operator, args, kwargs)


class Narrow(consistency.Backend):
    """Computes one dtype in another one: float64 in float32, int64 in int32, in float64 or in
    float32."""

    def __init__(self, name: str, dtype: torch.dtype, instead: torch.dtype) -> None:
        self.name, self.dtype, self.instead = name, dtype, instead

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if not any(t.dtype == self.dtype for t in tensors(list(args))):
            return super().call(operator, args, kwargs)
        name = operator.name
        if self.instead.is_floating_point and self.dtype == torch.int64 and name == "floor_divide":
            found = torch.floor(args[0].to(self.instead) / args[1].to(self.instead))
        else:
            found = super().call(
                operator,
                each(list(args), lambda t: t.to(self.instead) if t.dtype == self.dtype else t),
                kwargs,
            )
        return each(found, lambda t: t.to(self.dtype) if t.dtype == self.instead else t)


class Atomic(consistency.Backend):
    """Adds in another order every time: sums, products of matrices, index_add, scatter_add."""

    name = "atomic"

    def __init__(self) -> None:
        self.turn = 0

    def _order(self, count: int) -> torch.Tensor:
        self.turn += 1
        return torch.from_numpy(np.random.default_rng(self.turn).permutation(count))

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        args = list(args)
        if operator.name == "matmul" and args[0].ndim == 2:
            order = self._order(args[0].shape[1])
            return super().call(operator, [args[0][:, order], args[1][order]], kwargs)
        if operator.name in ("index_add", "scatter_add"):
            order = self._order(args[2].numel())
            return super().call(operator, [*args[:2], args[2][order], args[3][order]], kwargs)
        if operator.name == "sum" and len(args) > 1 and args[1] == 0:
            return super().call(
                operator, [args[0][self._order(args[0].shape[0])], *args[1:]], kwargs
            )
        return super().call(operator, args, kwargs)


class Restless(consistency.Backend):
    """Every third call is an ulp off, whatever is asked: 12 sizes, asked twice, have the same bits
    both times."""

    name = "restless"

    def __init__(self) -> None:
        self.turn = 0

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        found = super().call(operator, args, kwargs)
        self.turn += 1
        up = self.turn % 3 == 0
        return each(
            found,
            lambda t: (
                torch.nextafter(t, torch.full_like(t, 1e30)) if up and t.is_floating_point() else t
            ),
        )


class Zeros(consistency.Backend):
    """Nothing but zeros comes back: neither flushed subnormals nor rounded products are established
    by them."""

    name = "zeros"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return each(super().call(operator, args, kwargs), torch.zeros_like)


class ByBatch(consistency.Backend):
    """Another order of summation from eight rows on, and for transposed left factors."""

    name = "by batch"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if operator.name == "matmul" and args[0].ndim == 2 and args[0].dtype == torch.float32:
            a, b = args[0].double(), args[1].double()
            half = a.shape[1] // 2
            if a.shape[0] >= 8 or not args[0].is_contiguous():
                return (a[:, :half] @ b[:half]).float() + (a[:, half:] @ b[half:]).float()
            return torch.stack([(a[i : i + 1] @ b)[0] for i in range(a.shape[0])]).float()
        return super().call(operator, args, kwargs)


class Contradicting(consistency.Backend):
    """Every call is answered with noise of its own in the last bits: nothing can be established."""

    name = "contradicting"

    def __init__(self) -> None:
        self.turn = 0

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        found = super().call(operator, args, kwargs)
        self.turn += 1
        noise = np.random.default_rng(self.turn)
        return each(found,
        lambda t: t * torch.from_numpy(1.0 + noise.normal(size=t.shape) * 1e-3).to(t.dtype)
                    if t.is_floating_point() else t)  # fmt: skip


class Unhelpful(consistency.Backend):
    """Gives results of the wrong shape, of the wrong dtype, or none."""

    name = "unhelpful"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if operator.name in ("matmul", "exp"):
            return torch.zeros(3, dtype=torch.int16)
        if operator.name in ("bmm", "div"):
            raise consistency.Unsupported("no such thing here")
        if operator.name == "add":
            raise RuntimeError("something went wrong")
        found = super().call(operator, args, kwargs)
        return each(
            found, lambda t: torch.full_like(t, float("nan")) if t.is_floating_point() else t
        )
