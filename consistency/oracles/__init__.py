"""Oracles: what operators give, computed independently of torch and far above float64, for the float64 arguments as they are.

:func:`oracle` finds the one of an operator. An :class:`Oracle` answers with (high, tail) per output, see :class:`Answer`. There are
four sources: mpmath element by element (:mod:`.elementwise`, :mod:`.special`), double-double (:mod:`.sums`, :mod:`.windows`),
formulas in mpmath's numbers (:mod:`.composed`), and, for what only moves numbers, NumPy. None counts on NumPy's long double.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import operators
from ..operators.declare import Operator
from . import _numbers, composed, elementwise
from .answer import Answer, Unsure
from .double_double import DoubleDouble, within_range
from .elementwise import FUNCTIONS
from .sums import SUMS
from .windows import WINDOWS

__all__ = ["Answer", "Oracle", "Unsure", "available", "oracle"]

available = _numbers.available
_DOUBLE_DOUBLE = SUMS | WINDOWS


@dataclass(frozen=True)
class Oracle:
    """Of one operator. ``source`` is ``mpmath`` (samples cost little), ``double-double``, ``formulas`` or ``exact``.

    ``accuracy`` bounds the error relative to S, the magnitude that is summed (for functions of single elements: to the result).
    """

    operator: Operator
    source: str

    @property
    def accuracy(self) -> float:
        return {"mpmath": 2.0**-90, "double-double": 2.0**-90, "formulas": 2.0**-90, "exact": 0.0}[self.source]

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any], most: int | None = None) -> list[Answer]:
        """One answer per output for float64 ``args`` (torch tensors); of single elements at most ``most`` are computed.

        Raises Unsure where it knows no answer to these arguments.
        """
        name = self.operator.name
        with np.errstate(all="ignore"):
            match self.source:
                case "mpmath":
                    return elementwise.evaluate(name, args, kwargs, most)
                case "double-double":
                    return _double_double(name, args, kwargs)
                case "exact":
                    return composed.move(self.operator, args, kwargs)
            return composed.evaluate(name, args, kwargs)


@functools.cache
def oracle(name: str) -> Oracle | None:
    """The oracle of an operator by its name; None where there is none, or none without mpmath."""
    found = operators.registry().get(name)
    return None if found is None else of(found)


def of(operator: Operator) -> Oracle | None:
    """The oracle of an operator that goes by the registry's name, or None."""
    if composed.moves(operator):
        return Oracle(operator, "exact")
    if operator.mutates:
        return None
    if operator.name in _DOUBLE_DOUBLE:
        return Oracle(operator, "double-double")
    if not available():
        return None
    if operator.name in FUNCTIONS:
        return Oracle(operator, "mpmath")
    return Oracle(operator, "formulas") if composed.composes(operator) else None


def _double_double(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Answer]:
    arrays: list[Any] = []
    try:
        given = [_array(item, arrays) for item in args]
        named = {key: _array(item, arrays) for key, item in kwargs.items()}
        if not within_range(*(array for array in arrays if array.dtype.kind == "f")):
            raise Unsure("numbers outside of 2⁻⁴⁰⁰ … 2⁴⁰⁰")
        result = _DOUBLE_DOUBLE[name](*given, **named)
    except (TypeError, ValueError, LookupError) as error:
        if available() and composed.composes(operators.get(name)):
            return composed.evaluate(name, args, kwargs)
        raise Unsure(f"{type(error).__name__}: {error}") from None
    except Unsure:
        if available() and composed.composes(operators.get(name)):
            return composed.evaluate(name, args, kwargs)
        raise
    parts: tuple[DoubleDouble, ...] = result if isinstance(result, tuple) else (result,)
    return [Answer(part.shape, part.high.reshape(-1), part.low.reshape(-1)) for part in parts]


def _array(item: Any, arrays: list[Any]) -> Any:
    if isinstance(item, torch.Tensor):
        if item.dtype not in (torch.float64, torch.int64, torch.int32):
            raise Unsure(f"a tensor of {item.dtype}")
        arrays.append(item.detach().numpy())
        return arrays[-1]
    if isinstance(item, (tuple, list)):
        return type(item)(_array(inner, arrays) for inner in item)
    if isinstance(item, (torch.dtype, torch.memory_format)):
        return None
    return item
