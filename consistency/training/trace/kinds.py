"""Which operators tell nothing about a backend's numbers, and when two calls are of one kind."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...errors import UsageError
from ...generate.calls.aten import overload_of

VIEW = "views and metadata: nothing is computed"
RANDOM = "random: another draw is no error"
UNINITIALISED = "uninitialised memory: whatever it holds is right"
FACTORY = "made of no tensor's numbers (zeros, arange, ones_like …)"
NUMBER = "reads a number out of a tensor (item)"
FOREIGN = "no operator of aten (profiler, distributed, an extension's own)"
NOT_CALLED = "changes storage or steers torch, computes nothing"
SUBCLASS = "tensors of a class of their own, whose numbers are not at hand"
UNUSUAL = "sparse, quantised, nested or meta tensors, or a dtype that cases do not hold"
ARGUMENT = "an argument that a case cannot hold (generator, symbolic size …)"
DEVICES = "goes from one device to another"
RAISED = "raised an exception in your program"
NOT_CAPTURED = "could not be captured"
REPEATED = "of a kind that was kept before"

_METADATA = frozenset(
    {
        "_unsafe_view", "_reshape_alias", "lift", "lift_fresh", "detach", "detach_", "alias",
        "equal", "size", "stride", "numel",
        "dim", "storage_offset", "_fused_sdp_choice", "is_same_size", "t_", "transpose_",
        "squeeze_", "unsqueeze_", "as_strided_",
        "swapaxes_", "swapdims_",
    }
)  # fmt: skip
_FROM_NOTHING = frozenset(
    {
        "zeros_like",
        "ones_like",
        "full_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty_strided",
        "empty_quantized",
    }
)


@functools.lru_cache(maxsize=8192)
def left_out(overload: Any) -> str:
    """Why calls of ``overload`` are not judged; empty if they are. Random ones are asked about with
    their arguments."""
    if getattr(overload, "namespace", "") != "aten":
        return FOREIGN
    base = overload.__name__.partition(".")[0]
    if base in ("_local_scalar_dense", "item", "is_nonzero"):
        return NUMBER
    if base.startswith(("empty", "new_empty", "_empty")):
        return UNINITIALISED
    if base in _METADATA or _is_view(overload):
        return VIEW
    schema = overload._schema
    takes = any("Tensor" in str(argument.type) for argument in schema.arguments)
    if base in _FROM_NOTHING or (not takes and not is_random(overload)):
        return FACTORY
    if not schema.returns and not any(
        a.alias_info is not None and a.alias_info.is_write for a in schema.arguments
    ):
        return NOT_CALLED
    try:
        overload_of(overload.__name__)
    except UsageError:
        return NOT_CALLED
    return ""


def _is_view(overload: Any) -> bool:
    """Whether what is returned is a view of an argument that is not written to."""
    arguments, returns = overload._schema.arguments, overload._schema.returns
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in arguments)
    if overload.__name__.startswith(
        ("to.", "type_as.", "dropout.", "feature_dropout.")
    ):  # they may return what they were given
        return False
    return not writes and any(r.alias_info is not None for r in returns)


@functools.lru_cache(maxsize=8192)
def is_random(overload: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in overload.tags


def draws(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether this call draws numbers: attention, dropout and recurrent layers may have a
    probability of 0, or only evaluate."""
    names = _switches(overload)
    if not names:
        return is_random(overload)
    schema = overload._schema.arguments
    given = {a.name: a.default_value for a in schema if a.has_default_value()}
    given |= dict(zip((a.name for a in schema), args, strict=False)) | dict(kwargs)
    probability = next(
        (given[name] for name in ("dropout_p", "dropout", "p") if name in names), 1.0
    )
    return bool(given.get("train", True)) and probability != 0.0


@functools.lru_cache(maxsize=8192)
def _switches(overload: Any) -> frozenset[str]:
    """The arguments of an operator with dropout that say whether there is any."""
    names = {argument.name for argument in overload._schema.arguments}
    of_dropout = (
        "dropout_p" in names
        or {"dropout", "train"} <= names
        or ({"p", "train"} <= names and is_random(overload))
    )
    return frozenset(names & {"dropout_p", "dropout", "p", "train"}) if of_dropout else frozenset()


def kind_of(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two calls have in common that are of one kind: operator, shapes, dtypes, strides,
    devices and arguments.

    Of a number that multiplies or is added (a step size changes from step to step), the sign and
    the power of two.
    """
    schema = overload._schema.arguments
    given = tuple(
        _kind(value, str(argument.type)) for value, argument in zip(args, schema, strict=False)
    )
    types = {argument.name: str(argument.type) for argument in schema} if kwargs else {}
    return (
        overload,
        given,
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
