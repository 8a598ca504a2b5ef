"""Numbers as Python source that gives the same bits: short decimals for few numbers, bytes for
many.

Every decimal is checked: torch must convert it to the same bits.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import torch

from ...core import dtypes
from ...core.bits import integers, signed_patterns
from .script_context import Sheet

FEW = 48  # numbers written as a list
_SPARSE = 12  # nonzero numbers of a long tensor that is written as zeros and assignments
_HEX_BYTES = 192
_IN_A_SCRIPT = 1 << 20  # bytes; longer data are in a separate file
Array = np.ndarray[Any, Any]


def flat(raw: Array, dtype: str, name: str, sheet: Sheet) -> str:
    """An expression for a one-dimensional tensor on the CPU with the bits of ``raw`` (bfloat16 as
    uint16 patterns).

    ``name`` is the variable to which it will be assigned.
    """
    if dtype in dtypes.PARTS:
        part = dtypes.PARTS[dtype]
        pairs = raw.view(part).reshape(-1, 2)
        if raw.size <= FEW:
            real, imaginary = (
                flat(np.ascontiguousarray(pairs[:, i]), part, name, sheet) for i in (0, 1)
            )
            return f"torch.complex({real}, {imaginary})"
        return _bytes(raw, dtype, name, sheet)
    if raw.size > FEW:
        return _long(raw, dtype, name, sheet)
    return (
        _decimal_literal(raw, dtype, sheet)
        or f"torch.tensor({_patterns(raw)}, dtype=torch.int{8 * raw.itemsize}).view(torch.{dtype})"
    )


def scalar(value: Any, sheet: Sheet) -> str:
    """A Python number as source."""
    if isinstance(value, complex):
        return f"complex({scalar(value.real, sheet)}, {scalar(value.imag, sheet)})"
    if not isinstance(value, float):
        return repr(value)
    return _register_special(repr(value), sheet)


def _register_special(text: str, sheet: Sheet) -> str:
    for word in ("nan", "inf"):
        if text.lstrip("-") == word:
            sheet.names.add(word)
    return text


def _decimal_literal(raw: Array, dtype: str, sheet: Sheet) -> str:
    """``torch.tensor([0.1, -0.0], dtype=torch.float32)``; empty if no decimals give these bits
    (unusual NaNs)."""
    texts = _decimals(raw, dtype)
    if texts is None:
        return ""
    for text in texts:
        _register_special(text, sheet)
    if len(texts) > 4 and len(set(texts)) == 1:
        return f"torch.full(({len(texts)},), {texts[0]}, dtype=torch.{dtype})"
    return f"torch.tensor([{', '.join(texts)}], dtype=torch.{dtype})"


def _decimals(raw: Array, dtype: str) -> list[str] | None:
    if dtype not in dtypes.FORMATS:
        return [repr(value) for value in raw.tolist()]
    texts = [_shortest(value, dtype) for value in _float_list(raw, dtype)]
    made = _converted_bits(texts, dtype)
    pattern = signed_patterns(raw)
    for i in np.flatnonzero(
        made != pattern
    ):  # double rounding from decimal to float64 to the dtype
        texts[i] = repr(float(_float_list(raw[i : i + 1], dtype)[0]))
    return texts if bool((_converted_bits(texts, dtype) == pattern).all()) else None


def _float_list(raw: Array, dtype: str) -> Any:
    if dtype != "bfloat16":
        return raw
    return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _shortest(value: Any, dtype: str) -> str:
    """The shortest decimal that identifies a number in its dtype."""
    if np.isnan(value):
        return "-nan" if np.signbit(value) else "nan"
    if dtype == "bfloat16" and np.isfinite(value):
        for digits in range(1, 6):
            text = f"{float(value):.{digits}g}"
            if float(torch.tensor(float(text), dtype=torch.bfloat16)) == float(value):
                return repr(float(text))
    return repr(float(value)) if dtype == "float64" else str(value)


def _converted_bits(texts: list[str], dtype: str) -> Any:
    """The bit patterns to which torch converts decimals."""
    tensor = torch.tensor([float(text) for text in texts], dtype=dtypes.TORCH[dtype])
    return integers(tensor).numpy()


def _patterns(raw: Array) -> list[int]:
    found: list[int] = signed_patterns(raw).tolist()
    return found


def _long(raw: Array, dtype: str, name: str, sheet: Sheet) -> str:
    pattern = raw.view(np.uint8) if raw.dtype == np.bool_ else signed_patterns(raw)
    if bool((pattern == pattern[0]).all()):
        one = (
            _decimal_literal(raw[:1], dtype, sheet)
            .removeprefix("torch.tensor([")
            .rpartition("], dtype")[0]
        )
        if one:
            return f"torch.full(({raw.size},), {one}, dtype=torch.{dtype})"
    if raw.dtype.kind in "iu" and dtype != "bfloat16" and bool((raw == np.arange(raw.size)).all()):
        return f"torch.arange({raw.size}, dtype=torch.{dtype})"
    places = np.flatnonzero(pattern)
    if places.size <= _SPARSE and dtype not in dtypes.WIDE_UNSIGNED:  # torch writes few of these
        some = flat(raw[places], dtype, name, sheet)
        return (
            f"torch.zeros({raw.size}, "
            f"dtype=torch.{dtype}).index_put((torch.tensor({places.tolist()}),), {some})"
        )
    return _bytes(raw, dtype, name, sheet)


def _bytes(raw: Array, dtype: str, name: str, sheet: Sheet) -> str:
    data = raw.astype(raw.dtype.newbyteorder("<"), copy=False).tobytes()
    if len(data) <= _HEX_BYTES:
        return f'torch.frombuffer(bytearray.fromhex("{data.hex()}"), dtype=torch.{dtype})'
    packed = zlib.compress(data, 9)
    constant = f"{name.upper()}_BYTES"
    if len(packed) <= _IN_A_SCRIPT:
        sheet.modules |= {"base64", "zlib"}
        sheet.constants.append(
            f"{constant} = "
            f'zlib.decompress(base64.b64decode("{base64.b64encode(packed).decode("ascii")}"))'
        )
    else:
        sheet.modules.add("pathlib")
        sheet.files[f"{name}.bin"] = data
        sheet.constants.append(
            f'{constant} = pathlib.Path(__file__).with_name("{name}.bin").read_bytes()'
        )
        sheet.note(
            f"The numbers of {name} are too many for a script: they lie beside it, in {name}.bin."
        )
    return f"torch.frombuffer(bytearray({constant}), dtype=torch.{dtype})"
