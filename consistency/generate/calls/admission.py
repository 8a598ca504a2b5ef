"""Whether a case from elsewhere is run, in a process that runs such cases.

It is not if it calls what it may not (:mod:`consistency.operators.catalog.allowed`), if the
arguments of a kernel do not belong together, or if it asks for more memory or work than
:class:`~consistency.core.foreign.Bounds` allow. What a call asks for is found without its numbers,
on torch's ``meta`` device; where that cannot tell, the process is watched
(:mod:`consistency.cli.supervision`). In other processes every case is admitted, at no cost.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...core import case_source, recipe
from ...core.case_source import parse_source
from ...core.foreign import TRUST, Bounds, active
from ...core.model import Case
from ...core.text import printable
from ...core.tiling import enlarged
from ...core.trees import flatten
from ...errors import ConsistencyError, UsageError
from ...operators.call_forms import empty
from ...operators.catalog import kernel_arguments
from ...operators.catalog.allowed import allows_function, allows_kernel
from ...operators.catalog.aten import base_name, overload_named
from ...operators.catalog.signature import signature
from ...operators.declare import Operator
from ..materialize import prepare

# In float64 and in its own dtype, its reference, and their comparison; as `corpus check` counts.
BYTES_PER_NUMBER = 40
# Additions and multiplications, at which a slow core is busy with float64 for a tenth of a second.
OPERATIONS_PER_SECOND = 2e9
_MATRIX_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "addbmm", "_int_mm"})
_CUBIC = ("linalg_", "_linalg_", "cholesky", "lu_", "geqrf", "ormqr", "orgqr", "triangular_solve")
MAX_TEXT, MAX_BITS, MAX_ARGUMENTS = 1000, 64, 100_000
SMALL = 1 << 21  # numbers, of which no call takes long


def check(case: Case, operator: Operator) -> None:
    """Raises UsageError with one line for a case that is not run here."""
    reason = refusal(case, operator)
    if reason:
        raise UsageError(reason)


def refusal(case: Case, operator: Operator) -> str:
    """Why this process does not run the case; empty if it does."""
    bounds = active()
    if bounds is None:
        return ""
    reason = _not_allowed(case) or _odd_argument(case)
    if reason:
        return f"{reason}; if you trust it, add {TRUST}"
    demand = _demand(case, operator, bounds)
    if demand:
        return f"{title(case)} asks for {demand}; {bounds.sentence}"
    reason = _unfit(case)
    return f"{title(case)}: {reason}; if you trust it, add {TRUST}" if reason else ""


def title(case: Case) -> str:
    """``aten.exp · float32``, from an untrusted case."""
    return printable(f"{case.operator[:80]} · {case.dtype[:20]}")


def _not_allowed(case: Case) -> str:
    source = parse_source(case.source)
    if source.kind == case_source.ATEN:
        name = source.name.partition(".")[0]
        allowed, called = allows_kernel(name), f"aten.{name}"
    elif source.kind == case_source.CALL:
        allowed, called = allows_function(source.name), source.name
    else:
        return ""
    if allowed:
        return _not_numeric(case) if called.startswith("operator.") else ""
    return f"{printable(called[:80])!r} is not among the calls that a case from elsewhere may make"


def _not_numeric(case: Case) -> str:
    """Python's operators compute with texts and lists of any length by themselves."""
    name, args = parse_source(case.source).name, case.args
    tensors = [isinstance(arg, recipe.TENSORS) for arg in args]
    if name in ("operator.getitem", "operator.setitem"):
        fine = bool(tensors) and tensors[0]
    else:
        numbers = [isinstance(arg, (bool, int, float, complex)) for arg in args]
        fine = any(tensors) and all(map(max, tensors, numbers))
    return "" if fine and not case.kwargs else f"{name} is called with other things than tensors"


def _odd_argument(case: Case) -> str:
    """Texts and numbers that no function of tensors takes."""
    for count, arg in enumerate(_scalars([*case.args, *case.kwargs.values()])):
        if count >= MAX_ARGUMENTS:
            return f"{title(case)} has more than {MAX_ARGUMENTS:,} arguments"
        if isinstance(arg, str) and len(arg) > MAX_TEXT:
            return f"{title(case)} has a text of {len(arg):,} characters as argument"
        if isinstance(arg, int) and arg.bit_length() > MAX_BITS:
            return f"{title(case)} has a whole number of {arg.bit_length():,} bits as argument"
    return ""


def _scalars(arg: Any) -> Iterator[Any]:
    match arg:
        case list() | tuple():
            for item in arg:
                yield from _scalars(item)
        case recipe.Index(start, stop, step):
            yield from (start, stop, step)
        case _:
            yield arg


def _demand(case: Case, operator: Operator, bounds: Bounds) -> str:
    """What the call takes beyond the bounds, in words; empty if that is not known."""
    try:
        case = _enlarged(case)
        args, kwargs = empty(list(case.args)), empty(dict(case.kwargs))
        views = [t.numel() for t in flatten((args, kwargs)) if isinstance(t, torch.Tensor)]
        given = max(sum(views), sum(_numbers(t) for t in case.tensors))
        given += sum(_numbers(t) for t in case.cotangents if t is not None)
    except (ConsistencyError, RuntimeError, ValueError, TypeError, LookupError):
        return ""  # the recipe is invalid, which is for the caller to say
    if given * BYTES_PER_NUMBER > bounds.bytes:
        return _memory(given)
    if _product(case, views) <= SMALL:
        return ""
    meter = _Meter()
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.device("meta"), torch.no_grad(), meter:
            operator(*args, **kwargs)
    if (given + meter.largest) * BYTES_PER_NUMBER > bounds.bytes:
        return _memory(given + meter.largest)
    if meter.operations > bounds.seconds * OPERATIONS_PER_SECOND:
        return f"{meter.operations:.2g} additions and multiplications"
    return ""


def _enlarged(case: Case) -> Case:
    """A large case with tensors of the sizes that its own are repeated to."""
    tiling = case.tiling
    if tiling is None:
        return case
    dims = iter((*tiling.dims, *[None] * len(case.tensors)))

    def whole(arg: Any) -> Any:
        match arg:
            case recipe.TensorRecipe() | recipe.Literal():
                dim = next(dims)
                if dim is None:
                    return arg
                shape = tuple(empty(arg).shape)
                return recipe.TensorRecipe(enlarged(shape, dim, tiling), arg.dtype)
            case tuple() | list():
                return type(arg)(whole(item) for item in arg)
        return arg

    args = tuple(whole(arg) for arg in case.args)
    kwargs = {name: whole(arg) for name, arg in case.kwargs.items()}
    return replace(case, args=args, kwargs=kwargs, tiling=None)


def _product(case: Case, views: Sequence[int]) -> float:
    """More than a call returns: the product of all sizes and numbers among its arguments.

    Spares most cases the meta device, whose first use costs a second; not those of functions whose
    result grows with a power.
    """
    if "combinations" in case.operator:
        return math.inf
    scalars = _scalars([*case.args, *case.kwargs.values()])
    numbers = [abs(arg) for arg in scalars if isinstance(arg, (int, float)) and arg == arg]
    return math.prod(float(min(n, 1e18)) + 1.0 for n in (*views, *numbers))


def _memory(numbers: int) -> str:
    return f"{numbers * BYTES_PER_NUMBER / 1e9:,.3g} GB of memory ({numbers:,} numbers)"


def _numbers(tensor: recipe.TensorRecipe | recipe.Literal) -> int:
    if isinstance(tensor, recipe.TensorRecipe):
        return math.prod(tensor.base)
    return max(math.prod(tensor.shape), len(tensor.data) // 8)


class _Meter(TorchDispatchMode):
    """The most numbers that one step of a call returns, and how many operations all steps take."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest, self.operations = 0, 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        numbers = sum(t.numel() for t in flatten(result) if isinstance(t, torch.Tensor))
        self.largest = max(self.largest, numbers)
        self.operations += numbers + _products(func, args, kwargs or {}, result)
        return result


def _products(func: Any, args: Any, kwargs: Any, result: Any) -> float:
    """The multiplications of a matrix product, a convolution, attention or a factorization; 0 for
    others."""
    name = signature(func).name
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
    if name in _MATRIX_PRODUCTS and len(tensors) >= 2:
        return float(result.numel() * tensors[-1].shape[-2])
    if "convolution" in name and len(tensors) >= 2:
        weight = tensors[-1] if name.endswith("backward") else tensors[1]
        largest = max(t.numel() for t in (*tensors, *flatten(result)) if t is not None)
        return float(largest * weight.numel() / max(weight.shape[0], 1))
    if "attention" in name and len(tensors) >= 2:
        return 2.0 * tensors[0].numel() * tensors[1].shape[-2]
    if name.startswith(_CUBIC) and tensors and tensors[0].dim() >= 2:
        return float(tensors[0].numel() * min(tensors[0].shape[-2:]))
    return 0.0


def _overload_of(case: Case) -> str:
    """The overload that a function of torch, or a declared one, hands its arguments to in the same
    order: ``lu_unpack.default``."""
    name = parse_source(case.source).name if case.source.startswith("call/") else case.operator
    plain = name.removeprefix("torch.").removeprefix("Tensor.").replace("linalg.", "linalg_")
    return f"{plain}.default"


def _unfit(case: Case) -> str:
    """Why the arguments of a kernel that checks nothing do not belong together."""
    source = parse_source(case.source)
    overload = source.name if source.kind == case_source.ATEN else _overload_of(case)
    if not kernel_arguments.is_checked(overload.partition(".")[0]):
        return ""
    try:
        function = overload_named(overload)
        built = prepare(case).build()
        bound = signature(function).bound(built.args, built.kwargs)
    except ConsistencyError:
        return ""
    return kernel_arguments.problem(base_name(function), bound)
