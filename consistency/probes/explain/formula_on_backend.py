"""A formula on a backend other than in-process torch: each torch function in it is one call to the
backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...backends.base import Backend
from ...core.case_source import call_source
from ...core.model import Case
from ...errors import UsageError
from ...generate.calls.torch_functions import operator_of
from ...generate.materialize import from_python, prepare
from ...operators.catalog.functions import name_of
from ...operators.declare import Operator

_VIEWS = frozenset(
    {
        "T",
        "mT",
        "H",
        "mH",
        "t",
        "transpose",
        "permute",
        "reshape",
        "view",
        "unsqueeze",
        "squeeze",
        "flatten",
        "__getitem__",
    }
)
_METHODS = {
    "__matmul__": "matmul",
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "__pow__": "pow",
}
_SWAPPED = {"__radd__": "add", "__rmul__": "mul"}


class Routed(Backend):
    """Calls ``inner`` for every function in ``formula(*args)``; views are taken in this process,
    with the same strides."""

    def __init__(self, inner: Backend, formula: Callable[..., Any]) -> None:
        self.inner, self.formula = inner, formula
        self.name, self.tolerance_key = inner.name, inner.tolerance_key

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with _CallRouter(self.inner):
            return self.formula(*args, **kwargs)


class _CallRouter(TorchFunctionMode):
    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "__get__":  # of a property, such as x.T
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            return func(*args, **(kwargs or {}))
        if name in _VIEWS:
            return func(*args, **(kwargs or {}))
        torch_name = (
            f"torch.{_METHODS.get(name) or _SWAPPED[name]}"
            if name in _METHODS or name in _SWAPPED
            else name_of(func)
        )
        if not torch_name:
            raise UsageError(f"{name or func} of a formula cannot be called in another process")
        values = tuple(from_python(arg) for arg in args)
        case = Case(
            torch_name.rpartition(".")[2], _dtype_of(args), values, {k: from_python(v) for k,
            v in (kwargs or {}).items()},
            source=call_source(torch_name),
        )  # fmt: skip
        outcome = self.backend.run(operator_of(case), prepare(case))
        result = outcome.outputs[0].tensor if outcome.ok and outcome.outputs else None
        if result is None:
            status = f"{outcome.status} {outcome.message[:120]}"
            raise UsageError(f"{torch_name} on {self.backend.name}: {status}".rstrip())
        return result


def _dtype_of(args: Sequence[Any]) -> str:
    first = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
    return str(first.dtype).removeprefix("torch.") if first is not None else "float32"
