"""Fourier transforms of real and complex tensors, and of half spectra."""

from __future__ import annotations

import math
from typing import Any

from ..balls import Unsure
from ..complex_numbers import Pair, pair
from ..elementwise import to_real
from ..fourier import transform
from . import entry


@entry("_fft_c2c")
def c2c(self: Any, dim: Any, normalization: int, forward: bool) -> Any:
    if not dim:
        return self
    sizes = [self.shape[d] for d in dim]
    sign = -1 if forward else 1
    return transform(
        pair(self),
        dim,
        sizes,
        sizes,
        sign=sign,
        count=math.prod(sizes),
        normalization=normalization,
    )


@entry("_fft_r2c")
def r2c(self: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    """With ``onesided`` the first half of the last of ``dim``; the other half mirrors it."""
    if isinstance(self, Pair):
        raise Unsure("a half spectrum of complex numbers")
    periods = [self.shape[d] for d in dim]
    sizes = [*periods[:-1], periods[-1] // 2 + 1] if onesided else periods
    return transform(
        to_real(self),
        dim,
        sizes,
        periods,
        sign=-1,
        count=math.prod(periods),
        normalization=normalization,
    )


@entry("_fft_c2r")
def c2r(self: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    """A half spectrum to the real signal: all dimensions but the last of ``dim`` as if complex,
    then the last; of the elements that must be real there, torch ignores the imaginary part
    (documentation of irfft), as the real part of the sum does.
    """
    sizes = [*(self.shape[d] for d in dim[:-1]), int(last_dim_size)]
    if self.shape[dim[-1]] != last_dim_size // 2 + 1:
        raise Unsure("a half spectrum of another length")
    return transform(
        pair(self),
        dim,
        sizes,
        sizes,
        sign=1,
        half="taken",
        count=math.prod(sizes),
        normalization=normalization,
        real=True,
    )
