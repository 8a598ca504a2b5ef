"""Which operators cannot reveal errors of a backend, and when two calls are of one kind."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...operators.catalog import aten
from ...operators.catalog.signature import signature

VIEW = "views and metadata: nothing is computed"
RANDOM = "random: another draw is no error"
UNINITIALIZED = "uninitialized memory: whatever it holds is right"
FACTORY = "made of no tensor's numbers (zeros, arange, ones_like …)"
NUMBER = "reads a number out of a tensor (item)"
FOREIGN = "no operator of aten (profiler, distributed, an extension's own)"
NOT_CALLED = "changes storage or steers torch, computes nothing"
SUBCLASS = "tensors of a class of their own, whose numbers are not at hand"
UNUSUAL = "sparse, quantized, nested or meta tensors, or a dtype that cases do not hold"
ARGUMENT = "an argument that a case cannot hold (generator, symbolic size …)"
DEVICES = "goes from one device to another"
RAISED = "raised an exception in your program"
NOT_CAPTURED = "could not be captured"
REPEATED = "of a kind that was kept before"


@functools.lru_cache(maxsize=8192)
def left_out(overload: Any) -> str:
    """Why calls of ``overload`` are not judged; empty if they are. Random ones depend on their
    arguments."""
    if getattr(overload, "namespace", "") != "aten":
        return FOREIGN
    base, schema = aten.base_name(overload), signature(overload)
    if schema.reads_number:
        return NUMBER
    if aten.is_uninitialized(base):
        return UNINITIALIZED
    if (
        base in aten.METADATA_QUERIES | aten.VIEWS_BY_ANOTHER_NAME
        or schema.is_inplace_view
        or (schema.is_view and not schema.may_copy)
    ):
        return VIEW
    if base in aten.CONSTANTS or (not schema.takes_tensors and not schema.is_random):
        return FACTORY
    if aten.is_forbidden(base) or (not schema.returns and not schema.written):
        return NOT_CALLED
    return ""


def kind_of(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The key of a kind of calls: operator, shapes, dtypes, strides, devices and arguments.

    Of a scalar factor or addend (a step size changes from step to step), only sign and power of
    two.
    """
    parameters = signature(overload).parameters
    positional = tuple(_kind(value, p.type) for value, p in zip(args, parameters, strict=False))
    types = {p.name: p.type for p in parameters} if kwargs else {}
    return (
        overload,
        positional,
        tuple((name, _kind(value, types.get(name, ""))) for name, value in kwargs.items()),
    )


def _kind(value: Any, declared: str) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return str(value.layout)
        return (
            value.shape,
            value.dtype,
            value.stride(),
            value.device,
            value.is_conj(),
            value.is_neg(),
        )
    if isinstance(value, (list, tuple)):
        return tuple(_kind(item, declared) for item in value)
    if isinstance(value, float):
        if declared.startswith("float"):
            return repr(value)
        return (
            ("about", *math.frexp(value)[1:], value > 0.0)
            if value not in (0.0, 1.0, -1.0)
            else value
        )
    if isinstance(value, (bool, int, str, complex, torch.dtype)) or value is None:
        return (type(value), value)
    return str(value)
