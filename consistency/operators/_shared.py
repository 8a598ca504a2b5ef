"""What the families of neural networks and linear algebra share: drawing sizes and options, and
closed forms of S."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .declare import SUMMED, Domain, Drawing, Magnitude
from .observing import Args, Kwargs
from .observing import Tensors as Outputs

__all__ = [
    "PLAIN", "Args", "Kwargs", "Outputs", "extent", "finite", "jointly", "largest", "magnitude",
    "peak", "per_dim", "scaling",
    "some", "spread", "summed",
]  # fmt: skip


PLAIN = Domain()  # for tensors whose values are given: no special ones among them


def magnitude(function: Callable[..., Any]) -> Magnitude:
    """S from a function ``(outputs, …)`` that takes the operator's own arguments by the operator's
    own names."""

    def by_signature(args: Args, kwargs: Kwargs, outputs: Outputs) -> Any:
        return function(outputs, *args, **kwargs)

    return by_signature


def peak(args: Args, kwargs: Kwargs, outputs: Outputs) -> Any:
    """For gradients that add up a few cotangents of at most 1, where moving an input may change
    which: twice the largest of all."""
    return tuple(2.0 * (largest(output) + 1.0) for output in outputs)


def jointly(args: Args, kwargs: Kwargs, outputs: Outputs) -> Any:
    """Twice the largest element of all outputs together: for gradients of which one may vanish
    although its parts do not."""
    return 2.0 * max((largest(output) for output in outputs), default=0.0)


def largest(tensor: torch.Tensor) -> float:
    """The largest finite magnitude; 0 for an empty tensor."""
    return float(finite(tensor.abs()).max()) if tensor.numel() else 0.0


def finite(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros in place of NaN and infinities, which are compared by kind and need no S."""
    return torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0)


def summed(d: Drawing, terms: int) -> Domain:
    """The domain for sums of so many products; narrow enough in float16 that they stay finite."""
    return SUMMED if d.dtype != "float16" else Domain(wide=(-8, 2), sums=terms <= 32)


def extent(d: Drawing, most: int = 64) -> int:
    """A size from 1, and once in a while 0."""
    return 0 if d.integer(0, 39) == 39 else d.size(1, most)


def per_dim(d: Drawing, rank: int, low: int, high: int) -> int | list[int]:
    """One whole number for all dimensions, or a list with one for each. Shrinks towards ``low``."""
    return [d.integer(low, high) for _ in range(rank)] if d.flag() else d.integer(low, high)


def spread(value: int | Sequence[int], rank: int) -> list[int]:
    """``value`` for each of ``rank`` dimensions."""
    return (
        [value] * rank if isinstance(value, int) else [*value, *[value[-1]] * (rank - len(value))]
    )


def some(d: Drawing, **options: tuple[Any, ...]) -> dict[str, Any]:
    """Keyword arguments: half of the time none; else each is left out or one of its options.
    Shrinks towards none."""
    if not d.flag():
        return {}
    chosen = {name: d.choice(None, *values) for name, values in options.items()}
    return {name: value for name, value in chosen.items() if value is not None}


def scaling(d: Drawing) -> dict[str, Any]:
    """``alpha`` and ``beta`` of ``addmm`` and its kin, half of the time."""
    if not d.flag():
        return {}
    draw: Callable[[], Any] = (
        (lambda: d.number(-2.0, 2.0)) if d.floating else (lambda: d.integer(-2, 2))
    )
    return {"beta": draw(), "alpha": draw()}
