"""Numbers as their bits: arrays and tensors of the same bits, and the integers of a format's width.

NumPy has no bfloat16: its arrays hold the bit patterns, as uint16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .dtypes import TORCH

Array = npt.NDArray[Any]
_IN_NUMPY = {"bfloat16": "uint16"}
_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def array_dtype(dtype: str) -> str:
    """NumPy's dtype for the bits of a tensor."""
    return _IN_NUMPY.get(dtype, dtype)


def to_array(tensor: torch.Tensor) -> Array:
    """The bits of a contiguous tensor on the CPU, which shares its memory."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def to_tensor(array: Array, dtype: str) -> torch.Tensor:
    """The tensor of ``dtype`` with the bits of an array; it shares the array's memory."""
    if not array.size:  # NumPy's empty arrays have other strides than torch's tensors
        return torch.empty(array.shape, dtype=TORCH[dtype])
    tensor = torch.from_numpy(array)
    return tensor.view(TORCH[dtype]) if dtype in _IN_NUMPY else tensor


def to_bytes(tensor: torch.Tensor) -> bytes:
    """The numbers of a tensor on the CPU in row-major order."""
    if not tensor.numel():
        return b""
    # A single element is contiguous with any stride, and view() wants 1.
    flat = tensor.detach().contiguous().as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).numpy().tobytes()


def array_of_bytes(data: bytes, dtype: str) -> Array:
    """A fresh flat array of little-endian bytes. Raises ValueError if the number of bytes does not
    fit."""
    kind = np.dtype(array_dtype(dtype))
    return np.frombuffer(data, dtype=kind.newbyteorder("<")).astype(kind)


def bytes_of_array(array: Array) -> bytes:
    """The little-endian bytes of an array."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def integers(tensor: torch.Tensor) -> torch.Tensor:
    """The bit patterns of a contiguous tensor of real numbers, as signed integers of its width."""
    return tensor.view(_SIGNED[tensor.element_size()])


def signed_patterns(array: Array) -> Array:
    """The bit patterns of an array as signed integers of its width."""
    return array.view(f"i{array.itemsize}")


def unsigned_patterns(array: Array) -> Array:
    """The bit patterns of an array as unsigned integers of its width; two to a complex128."""
    return array.view(f"u{min(array.itemsize, 8)}")


def finite(array: Array, dtype: str) -> npt.NDArray[np.bool_]:
    """Which numbers of an array of the bits of ``dtype`` are neither NaN nor infinite."""
    if dtype == "bfloat16":
        exponents: npt.NDArray[np.bool_] = (array & 0x7F80) != 0x7F80
        return exponents
    return np.isfinite(array)


def holds_subnormals(array: Array, dtype: str, smallest_normal: float) -> bool:
    """Whether any floating-point number of an array of the bits of ``dtype`` lies between 0 and
    the smallest normal number."""
    if dtype == "bfloat16":
        return bool((((array & 0x7F80) == 0) & ((array & 0x007F) != 0)).any())
    if array.dtype.kind != "f":
        return False
    with np.errstate(invalid="ignore"):
        return bool(((np.abs(array) < smallest_normal) & (array != 0)).any())
