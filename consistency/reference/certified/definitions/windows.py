"""``torch.signal.windows``, by the formulas in its documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _pi() -> Tensor:
    return torch.acos(_number(-1.0))


def _positions(count: int, sym: bool) -> tuple[Tensor, int]:
    """0 … count − 1, counted from the nearer end, and the last position of the symmetric window."""
    last = count - 1 if sym or count == 1 else count
    i = torch.arange(count, dtype=torch.float64)
    return torch.minimum(i, last - i), last


def bartlett(count: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    return torch.bartlett_window(count, periodic=not sym, dtype=dtype)


def hann(count: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    return torch.hann_window(count, periodic=not sym, dtype=dtype)


def blackman(count: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    return torch.blackman_window(count, periodic=not sym, dtype=dtype)


def kaiser(count: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None) -> Tensor:
    return torch.kaiser_window(count, periodic=not sym, beta=beta, dtype=dtype)


def general_cosine(
    count: int, *, a: Sequence[Tensor | float], sym: bool = True, dtype: Any = None
) -> Tensor:
    """Σⱼ (−1)ʲ·aⱼ·cos(2πji/n)."""
    i, last = _positions(count, sym)
    if count == 1:
        return torch.ones(1, dtype=dtype)
    terms = []
    for j, weight in enumerate(a):
        w = weight if isinstance(weight, Tensor) else _number(weight)
        terms.append((-w if j % 2 else w) * torch.cos(i * (2 * j) / last * _pi()))
    return torch.stack(terms).sum(0).to(dtype)


def nuttall(count: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    millions = (3635819, 4891775, 1365995, 106411)
    return general_cosine(
        count, a=[_number(float(w)) / 10_000_000 for w in millions], sym=sym, dtype=dtype
    )


def general_hamming(
    count: int, *, alpha: Tensor | float = 0.54, sym: bool = True, dtype: Any = None
) -> Tensor:
    share = _number(54.0) / 100 if alpha == 0.54 else _number(float(alpha))
    return general_cosine(count, a=[share, 1 - share], sym=sym, dtype=dtype)


def hamming(count: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    return general_hamming(count, sym=sym, dtype=dtype)


def _from_center(count: int, sym: bool) -> Tensor:
    """i − n/2."""
    return (
        torch.arange(count, dtype=torch.float64)
        - (count if not sym and count > 1 else count - 1) / 2
    )


def exponential(
    count: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    if center is None:
        distance = _from_center(count, sym)
    else:
        distance = torch.arange(count, dtype=torch.float64) - center
    return torch.exp(-torch.abs(distance) / _number(tau)).to(dtype)


def gaussian(count: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None) -> Tensor:
    """exp(−((i − n/2)/std)²/2)."""
    return torch.exp(-torch.square(_from_center(count, sym) / _number(std)) / 2).to(dtype)


def cosine(count: int, *, sym: bool = True, dtype: Any = None) -> Tensor:
    """sin(π·(i + 1/2)/n)."""
    i = torch.arange(count, dtype=torch.float64) + 0.5
    return torch.sin(i / (count + 1 if not sym and count > 1 else count) * _pi()).to(dtype)


_ALL = (
    bartlett,
    hann,
    blackman,
    kaiser,
    general_cosine,
    nuttall,
    general_hamming,
    hamming,
    exponential,
    gaussian,
    cosine,
)
DEFINITIONS: dict[str, Callable[..., Any]] = {f"signal.windows.{of.__name__}": of for of in _ALL}
