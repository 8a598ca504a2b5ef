"""The names of a script's tensors, and the cotangents of its gradients."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ...core import dtypes
from ...core.bits import to_array
from ...generate.materialize import Arguments
from ...operators.declare import Operator
from .source_repr import identifier

_TAKEN = frozenset(
    {
        "torch", "sys", "os", "math", "device", "dtype", "wide", "run", "inputs", "seen",
        "reference", "out", "nan", "inf", "got",
        "right", "call", "alone", "grads", "before", "leaves", "optimizer",
    }
)  # fmt: skip
_LETTERS = ("x", "y", "z", "w", "v", "u")
_NO_NAME = frozenset({"self", "input", "args", "kwargs", "tensor", "a", "A"})


def variables_of(operator: Operator, arguments: Arguments) -> list[str]:
    """A name for each tensor: that of the function's parameter, else x, y, z …"""
    count = len(arguments.tensors)
    wanted: dict[int, str] = {}
    for name, value in _bound(operator, arguments):
        if isinstance(value, torch.Tensor):
            wanted[id(value)] = name
        elif isinstance(value, (list, tuple)):
            wanted |= {
                id(item): f"{name}{place}"
                for place, item in enumerate(value)
                if isinstance(item, torch.Tensor)
            }
    letters = itertools.chain(
        _LETTERS if count <= len(_LETTERS) else (), (f"x{i}" for i in itertools.count())
    )
    found: list[str] = []
    for tensor in arguments.tensors:
        name = wanted.get(id(tensor), "")
        if not name or name in _NO_NAME or name in _TAKEN or name in found:
            name = next(
                letter
                for letter in letters
                if letter not in found and letter not in wanted.values()
            )
        found.append(name)
    return found


def _bound(operator: Operator, arguments: Arguments) -> Iterator[tuple[str, Any]]:
    """Arguments with the names of their parameters."""
    function = operator.function if operator.function is not None else operator.callable
    try:
        signature = inspect.signature(function) if inspect.isfunction(function) else None
    except (TypeError, ValueError):
        signature = None
    if signature is not None and not any(
        p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()
    ):
        yield from zip(signature.parameters, arguments.args, strict=False)
    for name, value in arguments.kwargs.items():
        yield identifier(name), value


def cotangent_array(
    cotangent: torch.Tensor, dtype: str
) -> tuple[torch.Tensor, np.ndarray[Any, Any], str]:
    """A cotangent in the dtype in which it was generated (exactly), its flat numbers (bfloat16 as
    bits), and that dtype's name."""
    wide = cotangent.detach().resolve_conj()
    name = dtype if dtypes.floats(dtype) else dtypes.name_of(wide.dtype)
    if not wide.is_complex() and name in dtypes.PARTS:
        name = dtypes.PARTS[name]
    elif wide.is_complex() and name not in dtypes.PARTS:
        name = dtypes.beside(name)
    narrow = wide.to(dtypes.TORCH[name]).contiguous()
    return narrow, to_array(narrow.reshape(-1)), name


def paths(
    value: Any, text: str, expressions: Mapping[int, str] | None
) -> Iterator[tuple[str, Any]]:
    """The leaves of a result with expressions for them, in the order of an outcome."""
    if isinstance(value, (tuple, list)):
        for position, item in enumerate(value):
            yield from paths(item, f"{text}[{position}]", expressions)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths(item, f"{text}[{key!r}]", expressions)
    elif expressions is None:
        yield text, value
    else:
        yield expressions.get(id(value), repr(value)), value


def dtypes_in(value: Any) -> Iterator[torch.dtype]:
    if isinstance(value, torch.dtype):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from dtypes_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from dtypes_in(item)
