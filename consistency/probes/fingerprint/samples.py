"""Test numbers for probes, from the bitstream and integer arithmetic only, so that they are the
same on every machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...core.dtypes import FORMATS
from ...generate import bitstream
from .gemm_probe import Array
from .query import Words

_WORD = {"float64": np.uint64, "float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16}


def raw(count: int, turn: int = 0) -> npt.NDArray[np.uint64]:
    """Random 64-bit words; each ``turn`` gives different ones."""
    return bitstream.window(count, (turn + 2) * (1 << 18))[0]


def between(
    dtype: str, count: int, low: int, high: int, turn: int = 0, signed: bool = False
) -> Words:
    """Bit patterns of random numbers with exponents low … high − 1."""
    form, bits = FORMATS[dtype], raw(count, turn)
    fraction = bits & np.uint64((1 << (form.precision - 1)) - 1)
    exponent = (bits >> np.uint64(53)) % np.uint64(high - low) + np.uint64(
        low - form.min_exponent + 1
    )
    patterns = fraction | (exponent << np.uint64(form.precision - 1))
    if signed:
        width = np.uint64(np.dtype(_WORD[dtype]).itemsize * 8 - 1)
        patterns = patterns | ((bits >> np.uint64(52)) & np.uint64(1)) << width
    return patterns.astype(_WORD[dtype])


def every_exponent(dtype: str, mantissas: int) -> Words:
    """Bit patterns of every finite exponent, subnormals included, with ``mantissas`` evenly spaced,
    shifted mantissas of alternating sign."""
    form = FORMATS[dtype]
    fraction_bits = form.precision - 1
    exponents = np.arange(form.max_exponent - form.min_exponent + 2, dtype=np.uint64)
    spread = np.arange(mantissas, dtype=np.uint64) * np.uint64((1 << fraction_bits) // mantissas)
    shift = raw(len(exponents)) % np.uint64((1 << fraction_bits) // mantissas)
    patterns = (exponents[:, None] << np.uint64(fraction_bits)) | (spread[None] + shift[:, None])
    width = np.uint64(np.dtype(_WORD[dtype]).itemsize * 8 - 1)
    signs = (np.arange(mantissas, dtype=np.uint64) & np.uint64(1)) << width
    return (patterns | signs[None]).reshape(-1).astype(_WORD[dtype])


def all_of_16_bits() -> Words:
    return np.arange(1 << 16, dtype=np.uint16)


def integers(shape: tuple[int, ...], bits: int, turn: int = 0) -> Array:
    """Random odd integers of both signs with so many bits, as float64."""
    count = int(np.prod(shape))
    values = (raw(count, turn) >> np.uint64(64 - bits)).astype(np.int64) - (1 << (bits - 1))
    return (values * 2 + 1).astype(np.float64).reshape(shape)
