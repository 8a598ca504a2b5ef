"""Oracles of what is composed of several steps: the NumPy formulas, computed in numbers of 160 bits and unbounded exponents.

:mod:`consistency.backends.numpy_ops` states softmax, normalisations, losses … once, for arrays of any floating type; fed with
mpmath's numbers as objects, every step has 160 bits, nothing overflows on the way, and results are good to 2⁻¹⁰⁶ wherever fewer
than 50 bits cancel. No long double is involved and no code of torch's. (Long doubles go through the same formulas: what one of the
two finds wrong with an arithmetic the other can confirm, a wrong formula not; those are tested against torch's float64.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .. import dtypes
from ..backends.numpy_backend import Numpy, _to_numpy
from ..errors import Unsupported
from ..operators.declare import Operator
from . import _numbers
from .answer import Answer, Unsure

MOST = 1 << 15  # numbers of one array that goes in or comes out: some microseconds for each step


def composes(operator: Operator) -> bool:
    """Whether there are formulas for it. Steps are left out: neighbours of what is rounded are admissible, too."""
    from ..backends.numpy_ops import WIDE

    return operator.name in WIDE - {"floor_divide", "round"} and not operator.mutates


def evaluate(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Answer]:
    """The answer to ``name(*args, **kwargs)``, complete. Raises Unsure."""
    from ..backends.numpy_ops import IMPLEMENTATIONS

    try:
        given = [_objects(_to_numpy(item)) for item in args]
        named = {key: _objects(_to_numpy(item)) for key, item in kwargs.items()}
        result = IMPLEMENTATIONS[name](*given, **named)
        arrays = [np.asarray(item) for item in (result if isinstance(result, (tuple, list)) else (result,))]
        if any(not np.iscomplexobj(array) and array.size > MOST for array in arrays):
            raise Unsure("too many numbers")
        return [_answer(array) for array in arrays]
    except Unsure:
        raise
    except (Unsupported, NotImplementedError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise Unsure(f"{type(error).__name__}: {error}") from None


def _answer(array: np.ndarray[Any, Any]) -> Answer:
    if array.dtype.kind in "iub":
        return Answer(array.shape, array.reshape(-1))
    if array.dtype.kind != "O":  # float64 on the way: no more than float64 at the end
        raise Unsure(f"a step was done in {array.dtype}")
    high, tail = _numbers.to_doubles(array.reshape(-1))
    return Answer(array.shape, high, tail)


def _objects(item: Any) -> Any:
    """Floating arrays, and the names of floating dtypes, as objects; integers stay."""
    if isinstance(item, np.ndarray):
        if item.dtype.kind == "c" or item.size > MOST:
            raise Unsure("complex numbers, or too many")
        return _numbers.from_doubles(item) if item.dtype.kind == "f" else item
    if isinstance(item, (tuple, list)):
        made = [_objects(inner) for inner in item]
        return made if isinstance(item, list) else tuple(made)
    return "object" if isinstance(item, str) and item in dtypes.FORMATS else item


_NUMPY = Numpy()


def moves(operator: Operator) -> bool:
    """Whether the operator only moves, chooses or compares numbers, and NumPy has code of its own for it."""
    from ..backends.numpy_ops import IMPLEMENTATIONS

    return operator.error.kind == "exact" and operator.name in IMPLEMENTATIONS and not operator.mutates


def move(operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Answer]:
    """The exact answer of such an operator: nothing is computed, so float64 is as good as any number. Raises Unsure."""
    from ..backends.base import flatten

    try:
        found = list(flatten(_NUMPY.call(operator, args, kwargs)))
    except (Unsupported, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise Unsure(str(error)) from None
    if not all(isinstance(item, torch.Tensor) and item.dtype not in (torch.complex64, torch.complex128) for item in found):
        raise Unsure("results that are no real tensors")
    return [Answer(tuple(item.shape), item.numpy().reshape(-1)) for item in found]
