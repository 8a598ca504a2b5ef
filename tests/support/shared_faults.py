"""Faults that torch's float64 shares with every other dtype: a dispatch mode that makes one ATen
operator wrong for some layouts, lengths or batches, whatever the dtype.

Whoever computes inside of :func:`tests.support.wrong_float64.correct_float64` is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

Fault = Callable[[Callable[..., Any], torch.Tensor, Sequence[Any], dict[str, Any]], Any]


class SharedFault(TorchDispatchMode):
    """``fault(healthy, x, rest, kwargs)`` is called in place of the ATen operators ``names``,
    whose first argument is a tensor."""

    def __init__(self, names: Sequence[str], fault: Fault) -> None:
        super().__init__()
        self.names, self.fault = frozenset(names), fault

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.removeprefix("aten::") in self.names:
            right = func(*args, **(kwargs or {}))
            found = self.fault(func, args[0], args[1:], kwargs or {})
            if right.shape != found.shape:
                return found
            return torch.empty_like(right).copy_(found)  # the numbers are wrong, nothing else
        return func(*args, **(kwargs or {}))


def misread_strides(healthy: Any, x: torch.Tensor, rest: Any, kwargs: Any) -> Any:
    """Reads a strided input as if it were contiguous; not a mask, of which the harness itself
    takes the positions."""
    if x.is_contiguous() or x.numel() == 0 or x.dtype == torch.bool:
        return healthy(x, *rest, **kwargs)
    begin = x.as_strided(
        (min(x.untyped_storage().nbytes() // x.element_size(), x.numel()),), (1,), 0
    )
    flat = begin.repeat(-(-x.numel() // begin.numel()))[: x.numel()]
    return healthy(flat.reshape(x.shape), *rest, **kwargs)


def wrong_tail(healthy: Any, x: torch.Tensor, rest: Any, kwargs: Any) -> Any:
    """One percent off in the last numel % 8 elements of the result."""
    found = healthy(x, *rest, **kwargs).contiguous()
    left = found.numel() % 8
    if left and found.numel() > 8:
        found.view(-1)[-left:] *= 1.01
    return found


def disturbed_item(healthy: Any, x: torch.Tensor, rest: Any, kwargs: Any) -> Any:
    """Adds a hundredth of item 0 of the result to item 1."""
    found = healthy(x, *rest, **kwargs).contiguous()
    if found.ndim and found.shape[0] > 1:
        found[1] += 0.01 * found[0]
    return found


def off_by_one(healthy: Any, x: torch.Tensor, rest: Any, kwargs: Any) -> Any:
    """An integer more in the first element if the input is not contiguous."""
    found = healthy(x, *rest, **kwargs)
    if not x.is_contiguous() and found.numel():
        found = found.contiguous()
        found.view(-1)[0] += 1
    return found


class ForgottenConjugate(TorchFunctionMode):
    """Public functions ``names`` read arguments whose conjugation is pending as they lie in
    memory. Dispatch modes do not see that bit."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = frozenset(names)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recorded = _get_current_dispatch_mode() is not None  # a tracer calls no kernel
        if getattr(func, "__name__", "") in self.names and not recorded:
            args = tuple(a.conj() if torch.is_tensor(a) and a.is_conj() else a for a in args)
        return func(*args, **(kwargs or {}))
