"""Cases and outcomes as JSON data and byte strings: for worker processes, recordings and clusters.

No pickle: data from any source are safe to read. The caller decides where the numbers of tensors
go: ``store`` is called with each tensor and returns the fields that the JSON data hold for it;
``load`` is called with these fields, its dtype (None: this torch lacks it) and its shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConsistencyError
from . import dtypes, recipe
from .contract import contract_from_json, contract_to_json
from .model import Case, Outcome, Output
from .recipe import INLINE_BYTES
from .text import one_line
from .verdict import OutcomeStatus

if TYPE_CHECKING:
    import torch

MAX_TEXT = 2000  # characters of a message
MAX_OUTPUTS = 1 << 16
_STATUSES = frozenset(OutcomeStatus) - {OutcomeStatus.BOTH_RAISED, OutcomeStatus.NO_REFERENCE}

Json = dict[str, Any]
Store = Callable[[Output, "torch.Tensor"], Json]
Load = Callable[[Json, "torch.dtype | None", tuple[int, ...]], "torch.Tensor"]


class CodecError(ValueError):
    """The data are not an outcome."""


def long_literals(cases: Iterable[Case]) -> dict[str, bytes]:
    """The literal tensors of these cases that are too long for JSON data, by SHA-256."""
    return {
        literal.digest: literal.data
        for case in cases
        for literal in case.literals
        if len(literal.data) > INLINE_BYTES
    }


def pack_cases(cases: Sequence[Case]) -> tuple[Json, list[bytes]]:
    """Cases as JSON data, each as its line behind what is known of it unread, and their long
    literal tensors, each once."""
    literals = long_literals(cases)
    rows = [[case.operator, case.dtype, case.source, case.line] for case in cases]
    data = {"cases": rows, "literals": list(literals)}
    return data, list(literals.values())


def unpack_cases(data: Json, blobs: Sequence[bytes]) -> list[Case]:
    """What :func:`pack_cases` of the same version wrote: the lines are taken for canonical. Raises
    RecipeError."""
    literals = dict(zip(data["literals"], blobs, strict=True))
    return [Case.from_canonical(line, literals) for *_, line in data["cases"]]


def unread_cases(data: Json, blobs: Sequence[bytes]) -> list[Case]:
    """As :func:`unpack_cases`, each case to be read when it is first asked for
    (:meth:`~consistency.core.model.Case.unread`)."""
    literals = dict(zip(data["literals"], blobs, strict=True))
    return [
        Case.unread(str(operator), str(dtype), str(source), str(line), literals)
        for operator, dtype, source, line in data["cases"]
    ]


def encode_outcome(outcome: Outcome, store: Store) -> Json:
    """An outcome as JSON data, without empty fields."""
    fields = {
        "exception": outcome.exception,
        "message": outcome.message,
        "warnings": list(outcome.warnings),
        "modified": list(outcome.modified),
        "unsteady": outcome.unsteady,
        "state_changes": list(outcome.state_changes),
    }
    row: Json = {"status": str(outcome.status)}
    row |= {key: value for key, value in fields.items() if value}
    if outcome.contract is not None:
        row["contract"] = contract_to_json(outcome.contract)
    outputs = [_encode_output(output, store) for output in outcome.outputs]
    return row | {"seconds": outcome.seconds, "outputs": outputs}


def _encode_output(output: Output, store: Store) -> Json:
    tensor = output.tensor
    if tensor is None:
        return {"name": output.name, "value": _encode_value(output.value)}
    return {
        "name": output.name,
        "dtype": output.dtype or dtypes.name_of(tensor.dtype),
        "shape": list(tensor.shape),
        "device": output.device,
        **store(output, tensor),
    }


def _encode_value(value: Any) -> Any:
    """A returned value that is not a tensor: as recipes write arguments, or its text."""
    try:
        return recipe.encode(value)
    except ConsistencyError:
        return {"other": f"{type(value).__name__}: {value!r:.200}"}


def decode_outcome(data: Mapping[str, Any], load: Load) -> Outcome:
    """The outcome that JSON data describe. Raises KeyError for a missing field, and TypeError,
    ValueError, AttributeError, RuntimeError or RecipeError for a malformed one."""
    outputs = data.get("outputs", [])
    if not isinstance(outputs, list) or len(outputs) > MAX_OUTPUTS:
        raise CodecError("its outputs are no list, or too many")
    seconds = float(data.get("seconds", 0.0))
    return Outcome(
        _status(text_in(data, "status")),
        tuple(_decode_output(output, load) for output in outputs),
        one_line(text_in(data, "exception", "")),
        one_line(text_in(data, "message", ""), MAX_TEXT),
        tuple(str(text)[:MAX_TEXT] for text in data.get("warnings", ())),
        tuple(int(i) for i in data.get("modified", ())),
        seconds if math.isfinite(seconds) else 0.0,
        one_line(text_in(data, "unsteady", ""), MAX_TEXT),
        tuple(one_line(str(text), MAX_TEXT) for text in data.get("state_changes", ())),
        contract_from_json(data["contract"]) if data.get("contract") is not None else None,
    )


def _status(text: str) -> OutcomeStatus:
    """The status of a call, excluding those of comparisons."""
    if text not in _STATUSES:
        raise CodecError(f"its status is {text[:40]!r}")
    return OutcomeStatus(text)


def _decode_output(data: Json, load: Load) -> Output:
    name = text_in(data, "name")
    if "value" in data:
        value = data["value"]
        other = value.get("other") if isinstance(value, dict) else None
        return Output(name, None, value=recipe.decode(value) if other is None else str(other)[:200])
    dtype_name, device = text_in(data, "dtype"), text_in(data, "device", "")
    import torch

    dtype = getattr(torch, dtype_name, None)
    shape = tuple(int(size) for size in data["shape"])
    tensor = load(data, dtype if isinstance(dtype, torch.dtype) else None, shape)
    return Output(name, tensor, dtype_name, device)


def text_in(data: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """A text of bounded length. Raises KeyError if it is missing and there is no ``default``."""
    value = data[key] if default is None else data.get(key, default)
    if not isinstance(value, str):
        raise CodecError(f"{key!r} is no text")
    return value[:MAX_TEXT]
