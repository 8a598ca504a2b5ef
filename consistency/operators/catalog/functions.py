"""torch's public functions, Tensor's methods and Python's operators, by name.

A name may come from an untrusted file, so it is looked up, never evaluated: only what torch lists
as functions of tensors, its methods, some factories, and Python's operators.
"""

from __future__ import annotations

import functools
import operator as python
from collections.abc import Callable
from typing import Any

import torch

from ...errors import UsageError

_MODULES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")
# They make tensors from numbers, so torch does not list them among the functions of tensors.
FACTORIES = frozenset(
    {
        "arange", "bartlett_window", "blackman_window", "empty", "eye", "full", "hamming_window",
        "hann_window", "kaiser_window",
        "linspace", "logspace", "ones", "range", "scalar_tensor", "tril_indices", "triu_indices",
        "zeros",
    }
)  # fmt: skip
_PYTHON_OPERATORS = frozenset(
    {
        "getitem", "setitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul",
        "neg", "pos", "abs", "invert",
        "and_", "or_", "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge",
        "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
        "ilshift", "irshift", "imatmul",
    }
)  # fmt: skip
# Methods that leave torch, take a function, or change what a tensor is.
_FORBIDDEN_METHODS = frozenset(
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
# torch's documentation says that they convert their input to ``dtype`` before they add.
CONVERTS_FIRST = frozenset(
    {
        "sum", "nansum", "mean", "nanmean", "prod", "cumsum", "cumprod", "softmax", "log_softmax",
    }
)  # fmt: skip


def function_named(name: str) -> Callable[..., Any]:
    """``torch.nn.functional.gelu``, ``Tensor.copy_``, ``operator.getitem``. Raises UsageError for
    anything else."""
    module, _, last = name.rpartition(".")
    function: Any = None
    if module == "operator" and last in _PYTHON_OPERATORS:
        function = getattr(python, last)
    elif module == "Tensor" and last not in _FORBIDDEN_METHODS:
        function = getattr(torch.Tensor, last, None) if last in _methods() else None
    elif module in _MODULES:
        function = _functions().get(name)
    if function is None:
        if module in (*_MODULES, "Tensor", "operator") and not last.startswith("_"):
            raise UsageError(
                f"torch {torch.__version__} has no function {name!r:.80} that a recording may call"
            )
        raise UsageError(
            f"{name!r:.80} is no function of torch, Tensor or operator that a recording may call"
        )
    return function  # type: ignore[no-any-return]


def name_of(function: Callable[..., Any]) -> str:
    """The name by which :func:`function_named` finds this function, or an empty string."""
    last = getattr(function, "__name__", "")
    named = [f"operator.{last}", f"Tensor.{last}", *(f"{module}.{last}" for module in _MODULES)]
    named += [name for name, candidate in _functions().items() if candidate is function]
    for name in named:
        try:
            if last and function_named(name) is function:
                return name
        except UsageError:
            continue
    return ""


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    """The functions of tensors in torch and its public modules of operators, by name."""
    by_name: dict[str, Callable[..., Any]] = {}
    listed = [
        f for functions in torch.overrides.get_overridable_functions().values() for f in functions
    ]
    overridable = {id(function) for function in listed}
    for path in _MODULES:
        module = functools.reduce(getattr, path.split(".")[1:], torch)
        for name in dir(module):
            function = getattr(module, name)
            ours = getattr(function, "__module__", "") == path and path != "torch"
            maker = path == "torch" and name in FACTORIES
            if (
                not name.startswith("_")
                and callable(function)
                and (id(function) in overridable or ours or maker)
            ):
                by_name[f"{path}.{name}"] = function
    return by_name


@functools.cache
def _methods() -> frozenset[str]:
    """The names of Tensor's methods."""
    listed = torch.overrides.get_overridable_functions()[torch.Tensor]
    names = {getattr(method, "__name__", "") for method in listed}
    return frozenset(name for name in names if not name.startswith("_") or _is_operator(name))


def _is_operator(name: str) -> bool:
    plain = {operator.strip("_") for operator in _PYTHON_OPERATORS}
    plain |= {"radd", "rsub", "rmul", "rdiv", "rpow"}
    return name.startswith("__") and name.strip("_") in plain
