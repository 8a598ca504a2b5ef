"""Outcomes in frames: JSON data and the bytes of the tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ...core import dtypes
from ...core.bits import to_bytes
from ...core.codec import Json, decode_outcome, encode_outcome
from ...core.model import Outcome, Output
from ...core.verdict import OutcomeStatus
from ...errors import ConsistencyError
from .framing import WireError


def pack_outcome(outcome: Outcome) -> tuple[Json, list[bytes]]:
    """An outcome as JSON data and the bytes of its tensors."""
    blobs: list[bytes] = []

    def store(_: Output, tensor: torch.Tensor) -> Json:
        tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
        if tensor.dtype not in dtypes.NAMES:  # an unusual format: what it is, without its numbers
            return {}
        blobs.append(to_bytes(tensor))
        return {"stored": dtypes.name_of(tensor.dtype)}

    try:
        return encode_outcome(outcome, store), blobs
    except (
        Exception
    ) as error:  # an unreadable layout, subclass or storage is a result of this backend
        text = f"its result cannot be read back: {type(error).__name__}: {str(error)[:200]}"
        return pack_outcome(
            Outcome(
                OutcomeStatus.RAISED,
                (),
                type(error).__name__,
                text,
                outcome.warnings,
                (),
                outcome.seconds,
            )
        )


def unpack_outcome(data: Json, blobs: Sequence[bytes]) -> Outcome:
    """Raises WireError."""
    remaining = iter(blobs)

    def load(fields: Json, dtype: torch.dtype | None, shape: tuple[int, ...]) -> torch.Tensor:
        if "stored" not in fields:
            return torch.zeros(shape, dtype=dtype or torch.uint8)
        stored, raw = dtypes.TORCH[fields["stored"]], next(remaining)
        if not raw:
            return torch.empty(shape, dtype=stored)
        flat = torch.from_numpy(np.frombuffer(raw, dtype=np.uint8).copy())
        return flat.view(stored).reshape(shape)

    try:
        return decode_outcome(data, load)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        StopIteration,
        RuntimeError,
        ConsistencyError,
    ) as error:
        raise WireError(f"not an outcome: {type(error).__name__} {str(error)[:80]}") from None
