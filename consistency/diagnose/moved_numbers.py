"""The same call with other numbers in place of Python's own: rounded to a format, or a little
larger. Tensors stay as they are, but single numbers of float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.recipe import Literal, TensorRecipe
from ..generate.materialize import Materials

_BEYOND = 1 << 53  # integers that float64 does not hold


def moved_numbers(
    materials: Materials,
    dtype: str,
    share: float,
    *,
    whole: bool = False,
    tensors: Collection[str] = (),
) -> tuple[Materials, float]:
    """The case with its numbers moved by that share of the way to the nearest one of ``dtype``, and
    the largest distance. ``whole``: integers, too, which are operands, such as an exponent, and no
    sizes. ``tensors``: dtypes of tensors that are converted, too."""
    largest = 0.0

    def moved(number: float) -> float:
        nonlocal largest
        exact = torch.tensor(number, dtype=torch.float64)
        way = exact.to(dtypes.TORCH[dtype]).double().item() - number
        if not math.isfinite(number):
            return number
        if not math.isfinite(way):  # beyond the format it is infinite: there is no half of the way
            largest = max(largest, abs(number))
            return math.copysign(math.inf, number)
        largest = max(largest, abs(way))
        return number + share * way

    case = materials.case
    bases = tuple(
        _moved_base(tensor, base, moved) if _is_number(tensor) else base
        for tensor, base in zip(case.tensors, materials.bases, strict=True)
    )
    if tensors:
        recipes, bases, far = _with_moved_tensors(case.tensors, bases, dtype, share, tensors)
        case, largest = case.with_tensors(recipes), max(largest, far)
    args = _with_numbers(case.args, moved, whole)
    kwargs = _with_numbers(dict(case.kwargs), moved, whole)
    return replace(materials, case=replace(case, args=args, kwargs=kwargs), bases=bases), largest


def _with_moved_tensors(
    tensors: Sequence[TensorRecipe | Literal],
    bases: Sequence[np.ndarray[Any, Any]],
    dtype: str,
    share: float,
    converted: Collection[str],
) -> tuple[list[TensorRecipe | Literal], tuple[np.ndarray[Any, Any], ...], float]:
    """The tensors of these dtypes as ones of float64, and the largest distance."""
    recipes, numbers, largest = list(tensors), list(bases), 0.0
    for place, tensor in enumerate(tensors):
        if tensor.dtype not in converted:
            continue
        exact = torch.from_numpy(bases[place].astype(np.float64))
        rounded = exact.to(dtypes.TORCH[dtype]).double()
        way = torch.where(rounded.isfinite(), rounded - exact, torch.inf * exact.sign())
        distance = torch.where(rounded.isfinite(), way.abs(), exact.abs())
        largest = max(largest, float(distance.max()) if distance.numel() else 0.0)
        if (exact.abs() >= _BEYOND).any():
            largest = max(largest, 1.0)
        moved = numbers[place] = torch.where(way == 0.0, exact, exact + share * way).numpy()
        if isinstance(tensor, Literal):
            recipes[place] = replace(tensor, dtype="float64", data=moved.tobytes())
        else:
            recipes[place] = replace(tensor, dtype="float64")
    return recipes, tuple(numbers), largest


def _is_number(tensor: TensorRecipe | Literal) -> bool:
    """Whether a tensor counts as a number: one without dimensions is converted, too."""
    shape = tensor.shape if isinstance(tensor, Literal) else tensor.base
    return shape == () and tensor.dtype in ("float64", "float32")


def _moved_base(
    tensor: TensorRecipe | Literal, base: np.ndarray[Any, Any], moved: Callable[[float], float]
) -> np.ndarray[Any, Any]:
    """The storage with its one number moved: a literal copy of a view has others beside it."""
    place = tensor.offset if isinstance(tensor, Literal) else 0
    changed = base.astype(np.float64).reshape(-1)
    changed[place] = moved(float(changed[place]))
    return changed


def _with_numbers(arg: Any, moved: Callable[[float], float], whole: bool = False) -> Any:
    match arg:
        case bool():
            return arg
        case int() if whole and abs(arg) < _BEYOND:
            number = moved(float(arg))
            return arg if number == arg else number
        case float():
            return moved(arg)
        case complex():
            return complex(moved(arg.real), moved(arg.imag))
        case tuple() | list():
            return type(arg)(_with_numbers(item, moved, whole) for item in arg)
        case dict():
            return {name: _with_numbers(item, moved, whole) for name, item in arg.items()}
    return arg


def count_numbers(materials: Materials) -> int:
    """How many of Python's numbers a call has."""
    count = 0

    def counted(number: float) -> float:
        nonlocal count
        count += 1
        return number

    _with_numbers([*materials.case.args, dict(materials.case.kwargs)], counted)
    return count


def scaled_number(materials: Materials, place: int, factor: float) -> Materials:
    """The case with one of its numbers times ``factor``."""
    count = itertools.count()

    def scaled(number: float) -> float:
        return number * factor if next(count) == place else number

    case = materials.case
    args, kwargs = _with_numbers(case.args, scaled), _with_numbers(dict(case.kwargs), scaled)
    return replace(materials, case=replace(case, args=args, kwargs=kwargs))
