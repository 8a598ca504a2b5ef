"""The third source of cases: functions that a case names itself, ``call/torch.add`` or
``call/Tensor.copy_``, as recordings do.

A name comes from a file of somebody else's, so it is looked up, never evaluated: only what torch
itself lists as functions of tensors, its methods, a few that make tensors, and Python's operators.
What our declaration of the same function knows (its error model, what is unique about its result)
holds for the call as well; anything else is judged by its sensitivity to its inputs.
"""

from __future__ import annotations

import functools
import operator as python
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ... import operators
from ...core.dtypes import FORMATS, TORCH
from ...core.model import Case
from ...core.recipe import DType
from ...errors import UsageError
from ...operators.declare import Operator, call
from .opinfo import _BY_SENSITIVITY, GENERIC

NAME = "call"
NAMED = "named"  # the trait of an operator that only its case tells
_WRITES = "/writes="
_MODULES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
# They make tensors from numbers, so torch does not list them among the functions of tensors.
_MAKERS = frozenset(
    {
        "arange", "bartlett_window", "blackman_window", "empty", "eye", "full", "hamming_window",
        "hann_window", "kaiser_window",
        "linspace", "logspace", "ones", "range", "scalar_tensor", "tril_indices", "triu_indices",
        "zeros",
    }
)  # fmt: skip
_PYTHON = frozenset(
    {
        "getitem", "setitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
        "neg", "pos", "abs", "invert",
        "and_", "or_", "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge",
        "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
        "ilshift", "irshift", "imatmul",
    }
)  # fmt: skip
# Methods that leave torch, take a function, or change what a tensor is.
_NOT_CALLED = frozenset(
    {
        "apply_",
        "map_",
        "map2_",
        "set_",
        "storage",
        "untyped_storage",
        "share_memory_",
        "module_load",
        "resize_",
    }
)


_CASTING_FIRST = (
    "sum",
    "nansum",
    "mean",
    "nanmean",
    "prod",
    "cumsum",
    "cumprod",
    "softmax",
    "log_softmax",
)


def source_of(name: str, writes: Sequence[int] = ()) -> str:
    """What a case that calls ``name`` has as its source; ``writes``: the positions of the tensors
    that the call writes to."""
    return f"{NAME}/{name}" + (_WRITES + ",".join(map(str, writes)) if writes else "")


def operator_of(case: Case) -> Operator:
    """The operator that a case with the source ``call/…`` calls. Raises UsageError for a name that
    is not to be called."""
    name, _, positions = case.source.removeprefix(f"{NAME}/").partition(_WRITES)
    try:
        writes = tuple(int(p) for p in positions.split(",")) if positions else ()
    except ValueError:
        raise UsageError(f"{case.source!r:.80} does not say which tensors are written") from None
    return _operator(name, case.operator, writes, _shorter(name, case))


@functools.lru_cache(maxsize=4096)
def _operator(name: str, title: str, writes: tuple[int, ...], shorter: str) -> Operator:
    function = function_of(name)
    declared = declared_as(name, function)
    reference = None
    if name.startswith("torch.") and name.removeprefix("torch.") in _MAKERS:
        reference = functools.partial(_in_double, function)
    common: dict[str, Any] = {
        "name": title, "function": _returns_nothing if name == "operator.setitem" else function,
        "differentiable": True, "mutates": writes, "reference": reference,
    }  # fmt: skip
    if declared is None:
        return Operator(
            family=GENERIC,
            sample=lambda d: call(),
            error=_BY_SENSITIVITY,
            traits=frozenset({NAMED}),
            **common,
        )
    if shorter:
        common["alternatives"] = functools.partial(_cast_first, function, TORCH[shorter])
    # The case says itself which tensors have gradients.
    form_of = None if declared.name == title else declared
    return replace(
        declared,
        **common,
        traits=declared.traits | {NAMED},
        differentiable_inputs=None,
        cases=None,
        form_of=form_of,
    )


def declared_as(name: str, function: Callable[..., Any]) -> Operator | None:
    """Our declaration of the function called ``name``, if there is one."""
    known, last = operators.registry(), name.partition(".")[2]
    found = known.get(f"__{last}__" if name.startswith("operator.") else last)
    if found is not None:
        return found
    return next((o for o in known.values() if o.form_of is None and o.callable is function), None)


def function_of(name: str) -> Callable[..., Any]:
    """``torch.nn.functional.gelu``, ``Tensor.copy_``, ``operator.getitem``. Raises UsageError for
    anything else."""
    module, _, last = name.rpartition(".")
    found: Any = None
    if module == "operator" and last in _PYTHON:
        found = getattr(python, last)
    elif module == "Tensor" and last not in _NOT_CALLED:
        found = getattr(torch.Tensor, last, None) if last in _methods() else None
    elif module in _MODULES:
        found = _functions().get(name)
    if found is None:
        if module in (*_MODULES, "Tensor", "operator") and not last.startswith("_"):
            raise UsageError(
                f"torch {torch.__version__} has no function {name!r:.80} that a recording may call"
            )
        raise UsageError(
            f"{name!r:.80} is no function of torch, Tensor or operator that a recording may call"
        )
    return found  # type: ignore[no-any-return]


def name_of(function: Callable[..., Any]) -> str:
    """What :func:`function_of` finds this very function by, or an empty string."""
    last = getattr(function, "__name__", "")
    named = [f"operator.{last}", f"Tensor.{last}", *(f"{module}.{last}" for module in _MODULES)]
    named += [name for name, known in _functions().items() if known is function]
    for name in named:
        try:
            if last and function_of(name) is function:
                return name
        except UsageError:
            continue
    return ""


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    """The functions of tensors, by name, that stand in torch and its public modules of
    operators."""
    found: dict[str, Callable[..., Any]] = {}
    listed = [
        f for functions in torch.overrides.get_overridable_functions().values() for f in functions
    ]
    overridable = {id(function) for function in listed}
    for path in _MODULES:
        module = functools.reduce(getattr, path.split(".")[1:], torch)
        for name in dir(module):
            function = getattr(module, name)
            ours = getattr(function, "__module__", "") == path and path != "torch"
            maker = path == "torch" and name in _MAKERS
            if (
                not name.startswith("_")
                and callable(function)
                and (id(function) in overridable or ours or maker)
            ):
                found[f"{path}.{name}"] = function
    return found


@functools.cache
def _methods() -> frozenset[str]:
    """The names of Tensor's methods."""
    listed = torch.overrides.get_overridable_functions()[torch.Tensor]
    names = {getattr(method, "__name__", "") for method in listed}
    return frozenset(name for name in names if not name.startswith("_") or _is_operator(name))


def _is_operator(name: str) -> bool:
    return name.startswith("__") and name.strip("_") in {n.strip("_") for n in _PYTHON} | {
        "radd",
        "rsub",
        "rmul",
        "rdiv",
        "rpow",
    }


def _returns_nothing(*args: Any) -> tuple[()]:
    """``x[key] = value``, of which only what was written is compared."""
    python.setitem(*args)
    return ()


def _shorter(name: str, case: Case) -> str:
    """The format with fewer digits than the case's own in which a reduction is asked for: ``sum(x,
    dtype=torch.float16)``."""
    asked = case.kwargs.get("dtype")
    if (
        name.rpartition(".")[2] not in _CASTING_FIRST
        or not isinstance(asked, DType)
        or case.dtype not in FORMATS
    ):
        return ""
    known = asked.name in FORMATS and FORMATS[asked.name].precision < FORMATS[case.dtype].precision
    return asked.name if known else ""


def _cast_first(
    function: Callable[..., Any], dtype: torch.dtype, args: Any, kwargs: Any, outputs: Any
) -> list[tuple[Any, ...]]:
    """What torch's documentation says, which casts the numbers before it adds them; casting the sum
    is admitted as well."""
    return [(function(args[0].to(dtype).to(torch.float64), *args[1:], **kwargs),)]


def _in_double(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function that makes tensors, in float64 where it was not told a dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return function(*args, **kwargs)
    finally:
        torch.set_default_dtype(before)
