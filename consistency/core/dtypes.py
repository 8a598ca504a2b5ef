"""Facts about number formats, in one place: significand bits, smallest normal, spacing and unit
roundoff.

``precision`` counts the implicit bit (24 for float32). Unit roundoff is 2**-precision, so float32
has 2**-24.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: significand bits and the exponents of its smallest and
    largest normal numbers."""

    precision: int
    min_exponent: int
    max_exponent: int

    @property
    def unit_roundoff(self) -> float:
        return 2.0**-self.precision

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.min_exponent

    @property
    def overflow(self) -> float:
        """The first power of two that does not fit: the value of an infinity when errors are
        measured."""
        return float(2.0 ** (self.max_exponent + 1)) if self.max_exponent < 1023 else float("inf")


FORMATS: dict[str, Format] = {
    "float64": Format(53, -1022, 1023),
    "float32": Format(24, -126, 127),
    "float16": Format(11, -14, 15),
    "bfloat16": Format(8, -126, 127),
}
FLOATING = tuple(FORMATS)
# Torch computes with few operators in these; most only move them or make floats of them.
WIDE_UNSIGNED = ("uint16", "uint32", "uint64")
UNSIGNED = ("uint8", *WIDE_UNSIGNED)
INTEGRAL = ("int64", "int32", "int16", "int8", *UNSIGNED)
INTEGER_RANGE = {
    "int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1),
    "int8": (-128, 127), "uint8": (0, 255), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1), "bool": (0, 1),
}  # fmt: skip
PARTS = {"complex64": "float32", "complex128": "float64"}  # what real and imaginary parts are
COMPLEX = tuple(PARTS)
ALL = (*FLOATING, *INTEGRAL, "bool", *COMPLEX)

# Other names of dtypes: suggested, never accepted, so that a dtype has one name in
# everything that is written.
OTHER_NAMES = {
    "float": "float32", "fp32": "float32", "f32": "float32", "single": "float32",
    "double": "float64", "fp64": "float64",
    "f64": "float64", "half": "float16", "fp16": "float16", "f16": "float16", "bf16": "bfloat16",
    "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "ushort": "uint16", "uint": "uint32",
    "ulong": "uint64", "boolean": "bool", "cfloat": "complex64",
    "cdouble": "complex128",
    "complex": "complex64",
}  # fmt: skip

TORCH: dict[str, torch.dtype]  # made by __getattr__: facts of formats are read without torch, too
NAMES: dict[torch.dtype, str]
EXPONENT = np.uint64(0x7FF0000000000000)  # the bits of a float64


def __getattr__(name: str) -> dict[Any, Any]:
    """TORCH and NAMES: torch's dtypes by name, and their names."""
    if name not in ("TORCH", "NAMES"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import torch

    known = {name: getattr(torch, name) for name in ALL}
    globals().update(TORCH=known, NAMES={dtype: name for name, dtype in known.items()})
    made: dict[Any, Any] = globals()[name]
    return made


def form_of(dtype: str) -> Format | None:
    """The format of a floating dtype's numbers, or of a complex one's parts; None for integers and
    booleans."""
    return FORMATS.get(PARTS.get(dtype, dtype))


def floats(dtype: str) -> bool:
    """Whether a dtype holds floating-point numbers, real or complex."""
    return dtype in FORMATS or dtype in PARTS


def coarsest(names: Iterable[str]) -> str:
    """The one of the fewest digits; those that are no real floating dtype come last."""
    return min(names, key=lambda name: FORMATS[name].precision if name in FORMATS else math.inf)


def beside(dtype: str) -> str:
    """The complex dtype for a real one: complex128 for float64, complex64 for all narrower ones."""
    return "complex128" if dtype in ("float64", "complex128") else "complex64"


def real_of(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous array's numbers as real ones: complex ones part by part, (real, imaginary) along
    the last dimension."""
    return array.view(array.real.dtype) if array.dtype.kind == "c" else array


def name_of(dtype: torch.dtype) -> str:
    """``"float32"`` for ``torch.float32``; unusual dtypes keep torch's own spelling without the
    prefix."""
    names: dict[torch.dtype, str] = globals().get("NAMES") or __getattr__("NAMES")
    return names.get(dtype) or str(dtype).removeprefix("torch.")


def spacing(
    reference: npt.NDArray[np.float64], form: Format, out: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """ulp of ``form`` at each float64 ``reference``: 2**(exponent - precision + 1), never below
    that of the smallest normal.

    Infinities and NaN give infinity.
    """
    return np.multiply(binade(reference, form, out), 2.0 ** (1 - form.precision), out=out)


def binade(
    reference: npt.NDArray[np.float64], form: Format, out: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """2**exponent of each float64 ``reference``, never below the smallest normal of ``form``:
    2**(precision - 1) ulp.

    Works on the exponent bits, about ten times faster than ``frexp``. Infinities and NaN give
    infinity.
    """
    np.bitwise_and(reference.view(np.uint64), EXPONENT, out=out.view(np.uint64))
    return np.maximum(out, form.smallest_normal, out=out)


@contextmanager
def float64_by_default() -> Iterator[None]:
    """Factory functions that are given no dtype make float64 tensors in the block."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
