"""Fourier transforms through np.fft, rounded to the dtype of the input (NumPy 1 works in double
throughout)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dtypes import Array, Dims, floating
from consistency.backends.numpy.implementations import implements


def _in_precision_of(x: Array, result: Any) -> Array:
    """float32 and complex64 stay single, whatever NumPy computed in."""
    single = x.dtype in (np.dtype(np.float32), np.dtype(np.complex64))
    kinds = (np.complex64, np.float32) if single else (np.complex128, np.float64)
    return np.asarray(result).astype(kinds[0] if np.iscomplexobj(result) else kinds[1])


def _offer_one(name: str) -> None:
    transform: Callable[..., Any] = getattr(np.fft, name)

    @implements(f"fft.{name}", complex=True)
    def call(input: Array, n: int | None = None, dim: int = -1, norm: str | None = None) -> Array:
        x = floating(input)
        return _in_precision_of(x, transform(x, n, dim, norm))


def _offer_several(name: str, default: tuple[int, int] | None) -> None:
    transform: Callable[..., Any] = getattr(np.fft, name)

    @implements(f"fft.{name}", complex=True)
    def call(
        input: Array,
        s: int | Sequence[int] | None = None,
        dim: Dims = default,
        norm: str | None = None,
    ) -> Array:
        x = floating(input)
        lengths = [s] if isinstance(s, int) else s
        over = [dim] if isinstance(dim, int) else dim
        if lengths is not None:
            if over is None:
                over = range(x.ndim - len(lengths), x.ndim)
            whole = [x.shape[d] for d in over]
            if name.startswith("irfft"):  # what is given is half of a symmetric spectrum
                whole[-1] = 2 * (whole[-1] - 1)
            lengths = [whole[i] if size == -1 else size for i, size in enumerate(lengths)]
        result = transform(x, lengths, over, norm)
        # Along no dimension NumPy returns what it was given.
        if name in ("fft2", "fftn", "ifft2", "ifftn") and not np.iscomplexobj(result):
            result = np.asarray(result, np.complex128)
        return _in_precision_of(x, result)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _offer_one(_name)
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    _offer_several(_name, (-2, -1))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _offer_several(_name, None)


@implements("fft.fftshift", wide=True, complex=True)
def fftshift(input: Array, dim: Dims = None) -> Array:
    return np.fft.fftshift(input, dim)


@implements("fft.ifftshift", wide=True, complex=True)
def ifftshift(input: Array, dim: Dims = None) -> Array:
    return np.fft.ifftshift(input, dim)
