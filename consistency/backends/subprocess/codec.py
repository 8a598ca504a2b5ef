"""What goes between a run and its workers: frames of JSON and raw bytes. No pickle: what comes back
is data, whoever sent it.

A case or an outcome is a header and the bytes of its tensors one after another: a frame
(:mod:`consistency.backends.subprocess.framing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...core import dtypes
from ...core.model import Case, Outcome, Output
from ...core.recipe import INLINE_BYTES
from .framing import CutShortError, Frame, Header, WireError, packed, read, write

__all__ = [
    "CutShortError", "Frame", "Header", "WireError", "pack_case", "pack_outcome", "pack_value",
    "packed", "read", "unpack_case",
    "unpack_outcome", "unpack_value", "write",
]  # fmt: skip
_SENT_AS = {torch.bfloat16: torch.int16}  # NumPy has no bfloat16


def pack_case(case: Case) -> tuple[Header, list[bytes]]:
    """A case as JSON data, and the literal tensors that do not fit into it."""
    found = [literal for literal in case.literals if len(literal.data) > INLINE_BYTES]
    distinct = {literal.digest: literal.data for literal in found}
    return {"case": case.to_json(), "literals": list(distinct)}, list(distinct.values())


def unpack_case(header: Header, blobs: Sequence[bytes]) -> Case:
    """Raises RecipeError."""
    return Case.from_json(header["case"], dict(zip(header["literals"], blobs, strict=True)))


def pack_outcome(outcome: Outcome) -> tuple[Header, list[bytes]]:
    """An outcome as JSON data and the bytes of its tensors."""
    blobs: list[bytes] = []
    try:
        outputs = [_pack_output(output, blobs) for output in outcome.outputs]
    except (
        Exception
    ) as error:  # a layout, a subclass, a storage that cannot be read: a result about this backend
        text = f"its result cannot be read back: {type(error).__name__}: {str(error)[:200]}"
        return pack_outcome(
            Outcome("raised", (), type(error).__name__, text, outcome.warnings, (), outcome.seconds)
        )
    header: Header = {
        "status": outcome.status,
        "exception": outcome.exception,
        "message": outcome.message,
    }
    header |= {
        "warnings": list(outcome.warnings),
        "modified": list(outcome.modified),
        "seconds": outcome.seconds,
    }
    return {**header, "outputs": outputs}, blobs


def _pack_output(output: Output, blobs: list[bytes]) -> Header:
    packed: Header = {"name": output.name, "dtype": output.dtype, "device": output.device}
    if output.tensor is None:
        return packed | {"value": pack_value(output.value)}
    tensor = output.tensor.detach().resolve_conj().resolve_neg().contiguous()
    packed["shape"] = list(tensor.shape)
    if tensor.dtype not in dtypes.NAMES:  # an unusual format: what it is, without its numbers
        return packed
    blobs.append(tensor.view(_SENT_AS.get(tensor.dtype, tensor.dtype)).numpy().tobytes())
    return packed | {"held": dtypes.name_of(tensor.dtype)}


def unpack_outcome(header: Header, blobs: Sequence[bytes]) -> Outcome:
    """Raises WireError."""
    try:
        rest = iter(blobs)
        outputs = tuple([_unpack_output(item, rest) for item in header["outputs"]])
        return Outcome(
            str(header["status"]), outputs, str(header["exception"]), str(header["message"]),
            tuple(map(str, header["warnings"])),
            tuple(map(int, header["modified"])), float(header["seconds"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError) as error:
        raise WireError(f"not an outcome: {type(error).__name__} {str(error)[:80]}") from None


def _unpack_output(data: Header, blobs: Any) -> Output:
    name, dtype, device = str(data["name"]), str(data["dtype"]), str(data["device"])
    if "shape" not in data:
        return Output(name, None, dtype, device, unpack_value(data["value"]))
    shape = [int(n) for n in data["shape"]]
    if "held" not in data:
        kind = getattr(torch, dtype.removeprefix("torch."), None)
        return Output(
            name,
            torch.zeros(shape, dtype=kind if isinstance(kind, torch.dtype) else torch.uint8),
            dtype,
            device,
        )
    held = dtypes.TORCH[data["held"]]
    raw = next(blobs)
    if not raw:
        return Output(name, torch.empty(shape, dtype=held), dtype, device)
    flat = torch.from_numpy(np.frombuffer(raw, dtype=np.uint8).copy())
    return Output(name, flat.view(held).reshape(shape), dtype, device)


def pack_value(value: Any) -> Any:
    """What an operator returned that is no tensor: numbers and text as they are, anything else by
    its text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case complex():
            return {"complex": [value.real.hex(), value.imag.hex()]}
    return {"other": type(value).__name__}


def unpack_value(data: Any) -> Any:
    match data:
        case {"float": str(text)}:
            return float.fromhex(text)
        case {"complex": [str(real), str(imaginary)]}:
            return complex(float.fromhex(real), float.fromhex(imaginary))
        case {"other": str(kind)}:
            return f"<{kind}>"
        case None | bool() | int() | str():
            return data
    raise ValueError(f"{data!r:.40} is no value")
