"""NumPy as a backend: implementations that share no code with torch, forward only, some in long
double for a better reference."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ... import operators
from ...core import dtypes
from ...core.trees import flatten
from ...errors import Unsupported
from ...generate.materialize import Materials
from ...operators.declare import REWRITTEN, Operator
from .._numerics import variables
from ..base import Backend, _processor

Array = npt.NDArray[Any]
LONG = np.dtype(np.longdouble)
LONG_COMPLEX = np.dtype(np.clongdouble)
LONG_NAMES = dict.fromkeys(dtypes.FORMATS, "longdouble") | dict.fromkeys(
    dtypes.PARTS, "clongdouble"
)
WRITING = frozenset(
    {"program"}
)  # implementations that write to their arguments, as the operator does
_TORCH_ONLY = (torch.memory_format, torch.layout, torch.device, torch.Generator)


class Numpy(Backend):
    """``numpy``: every operator that :mod:`consistency.backends.numpy` implements, on the same
    numbers."""

    name = "numpy"
    differentiable = False
    keeps_contract = False

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        implementation = _implementations().get(_name(operator))
        if implementation is None:
            raise Unsupported(f"no NumPy implementation of {_name(operator)}")
        if operator.leading:
            return _into(args[0], self._call(operator, implementation, args[1:], kwargs))
        return self._call(operator, implementation, args, kwargs)

    def _call(
        self,
        operator: Operator,
        implementation: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        call_args = (
            tuple([_to_numpy(item) for item in args]),
            {name: _to_numpy(item) for name, item in kwargs.items()},
        )
        try:
            result = implementation(*call_args[0], **call_args[1])
        except NotImplementedError as error:
            raise Unsupported(
                f"NumPy: {str(error) or operator.name + ' with these arguments'}"
            ) from None
        except TypeError as error:
            if _takes(implementation, *call_args):
                raise
            raise Unsupported(f"NumPy: {operator.name} with these arguments: {error}") from None
        return _to_torch(result)

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if _name(operator) not in _implementations():
            return f"no NumPy implementation of {_name(operator)}"
        declared = operators.registry().get(operator.name)
        if operator.cases is not None and (
            declared is None or operator.callable is not declared.callable
        ):
            return (
                f"this {operator.name} may take its arguments in another order than the NumPy "
                f"implementation"
            )
        if operator.mutates and not operator.leading and operator.name not in WRITING:
            return f"{operator.name} writes to its argument; the NumPy implementations do not"
        if dtype == "bfloat16":
            return "NumPy has no bfloat16"
        return super().unsupported(operator, dtype, direction)

    def has_float64(self) -> bool:
        return True

    def wide(self, operator: Operator, materials: Materials) -> list[Array] | None:
        """The outputs in long double, in the backend's order; None if that is no improvement.

        None, too, if no implementation works in long double throughout, or if it raised. Outputs
        that are not floating (indices, counts) keep their dtype. On x86 a long double has 11 bits
        more than float64; on Windows it has none more.
        """
        from . import WIDE

        if (
            np.finfo(LONG).nmant <= 52
            or _name(operator) not in WIDE
            or operator.mutates
            or operator.observe is not None
        ):
            return None
        try:
            arguments = materials.build("float64")
            args = [_widened(_to_numpy(item)) for item in arguments.args]
            kwargs = {name: _widened(_to_numpy(item)) for name, item in arguments.kwargs.items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = _implementations()[_name(operator)](*args, **kwargs)
            outputs = [np.asarray(item) for item in flatten(result)]
        except Exception:  # after any error the float64 reference remains
            return None
        wide = all(
            output.dtype in (LONG, LONG_COMPLEX) or output.dtype.kind in "iub" for output in outputs
        )
        return outputs if wide else None

    def environment(self) -> dict[str, str]:
        identity = {
            "device": "cpu",
            "numpy": np.__version__,
            "blas": _blas(),
            "processor": _processor(),
        }
        return identity | {
            name: value
            for name, value in variables().items()
            if name.startswith(("NPY_", "OPENBLAS_", "MKL_", "OMP_"))
        }


def _implementations() -> Mapping[str, Any]:
    from . import IMPLEMENTATIONS

    return IMPLEMENTATIONS


def _name(operator: Operator) -> str:
    """The implemented operator: for another form of an operator that operator, unless the argument
    order differs."""
    if REWRITTEN in operator.traits:
        return operator.name
    return operator.form_of.name if operator.form_of is not None else operator.name


def _into(out: torch.Tensor, result: Any) -> Any:
    """Write the result into the ``out=`` tensor if the shape fits; an empty one is replaced by
    another of its dtype."""
    if not isinstance(result, torch.Tensor):
        return result
    if result.shape != out.shape:
        return result.to(out.dtype)
    return out.copy_(result)


def _takes(
    implementation: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether the parameters fit these arguments."""
    try:
        inspect.signature(implementation).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # NumPy's own functions have no signature
        return True
    return True


def _to_numpy(item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        if item.dtype == torch.bfloat16:
            raise Unsupported("NumPy has no bfloat16")
        return item.detach().resolve_conj().resolve_neg().numpy()
    if isinstance(item, torch.dtype):
        if item == torch.bfloat16:
            raise Unsupported("NumPy has no bfloat16")
        return dtypes.name_of(item)
    if isinstance(item, _TORCH_ONLY):
        raise Unsupported(f"{item} means nothing to NumPy")
    if isinstance(item, (tuple, list)):
        items = [_to_numpy(inner) for inner in item]
        return items if isinstance(item, list) else tuple(items)
    if isinstance(item, Mapping):
        return {key: _to_numpy(inner) for key, inner in item.items()}
    return item


def _to_torch(item: Any) -> Any:
    """Arrays and NumPy scalars as tensors; Python numbers and None stay as they are."""
    if isinstance(item, (np.ndarray, np.generic)):
        array = np.asarray(item)
        usable = (
            array.flags.writeable
            and array.dtype.isnative
            and all(stride >= 0 for stride in array.strides)
        )
        return torch.from_numpy(
            array if usable else np.array(array, dtype=array.dtype.newbyteorder("="))
        )
    if isinstance(item, (tuple, list)):
        return tuple([_to_torch(inner) for inner in item])
    return item


def _widened(item: Any) -> Any:
    """Floating arrays, and the names of floating dtypes, in long double; integers stay."""
    if isinstance(item, np.ndarray):
        return (
            item.astype(LONG if item.dtype.kind == "f" else LONG_COMPLEX)
            if item.dtype.kind in "fc"
            else item
        )
    if isinstance(item, (tuple, list)):
        items = [_widened(inner) for inner in item]
        return items if isinstance(item, list) else tuple(items)
    if isinstance(item, dict):
        return {key: _widened(inner) for key, inner in item.items()}
    return LONG_NAMES.get(item, item) if isinstance(item, str) else item


def _blas() -> str:
    """The BLAS that NumPy was built with, such as ``openblas 0.3.31``; ``unknown`` if not
    reported."""
    try:
        shown: Any = np.show_config(mode="dicts")
        blas = shown["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas.get('version', '')}".strip()
    except Exception:  # an older or unusually built NumPy
        return "unknown"
