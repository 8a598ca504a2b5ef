"""One case of a batch with its images in channels_last, for operators that keep memory formats.

Of nine layouts, few draws choose this one; whether a backend keeps it is asked in every batch.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.model import Case
from ..core.recipe import Arg, TensorRecipe
from ..operators.call_forms import called_without_numbers, empty
from ..operators.declare import Operator
from .layouts import inverse
from .ordinary_cases import is_ordinary
from .variations import is_possible

FEWEST = 3  # cases of a batch of which one may be changed
# Families of which only shape functions state that some operators keep the format: those that move
# numbers, and a few others. What a policy asks for must be drawn.
_STATED = frozenset({"movement", "indexing", "activation", "loss", "sorting", "masked"})
SMALL = (2, 3, 5, 4)  # an image, for elementwise cases that have none


def with_channels_last(operator: Operator, cases: list[Case]) -> list[Case]:
    """The cases, one that can be in channels_last brought to it, unless one is already: rather an
    image than a volume, whose format is not promised, rather one of ordinary numbers, and rather a
    late one."""
    may_keep = operator.keeps_memory_format or operator.ruled_by[1] in _STATED
    if not may_keep or len(cases) < FEWEST:
        return cases
    images = [i for i, case in enumerate(cases) if _rank(operator, case) == 4]
    if any(_asks(operator, case) for case in ([cases[i] for i in images] or cases)):
        return cases
    for position in sorted(
        range(len(cases)), key=lambda i: (i not in images, not is_ordinary(cases[i]), -i)
    ):
        if operator.name.endswith("3d") and len(_shape(cases[position].tensors[0])) == 4:
            continue  # torch refuses a volume alone that looks like an image in channels_last
        changed = _in_channels_last(operator, cases[position])
        if changed is not None:
            return [*cases[:position], changed, *cases[position + 1 :]]
    return cases


def _rank(operator: Operator, case: Case) -> int:
    """The dimensions of the image of a case; 0 if it has none."""
    image = case.tensors[operator.leading : operator.leading + 1]
    return len(_shape(image[0])) if image else 0


def _asks(operator: Operator, case: Case) -> bool:
    """Whether the image is in channels_last and the others leave no doubt of what follows."""
    tensors = case.tensors
    image = tensors[operator.leading : operator.leading + 1]
    return any(_is_channels_last(t) for t in image) and all(
        _is_channels_last(t) or (isinstance(t, TensorRecipe) and not t.view) for t in tensors
    )


def _is_channels_last(tensor: Any) -> bool:
    return (
        isinstance(tensor, TensorRecipe)
        and [step[0] for step in tensor.view] in (["permute"], ["permute", "conj"])
        and tensor.view[0][1:3] == (0, len(tensor.base) - 1)
        and len(tensor.base) in (4, 5)
        and tensor.base[-1] > 1
        and math.prod(tensor.base[1:-1]) > 1
    )


def _in_channels_last(operator: Operator, case: Case) -> Case | None:
    """The case with its images in channels_last and its other tensors contiguous. The tensors of an
    elementwise case all become images: of the shape of its result, if that has enough dimensions,
    or a small one. None if there is no image, or if it cannot be called so."""
    full: tuple[int, ...] | None = None
    if "elementwise" in operator.traits:
        shapes = {_shape(tensor) for tensor in case.tensors} - {()}
        full = max(shapes, key=len, default=SMALL)
        full = {2: (1, *full, 1), 3: (1, *full)}.get(len(full), full)
        if len(full) != 4 or full[1] < 2 or full[2] * full[3] < 2:
            full = SMALL
    change = functools.partial(_formatted, full)
    args = tuple(_map(change, arg) for arg in case.args)
    kwargs = {name: _map(change, arg) for name, arg in case.kwargs.items()}
    changed = replace(case, args=args, kwargs=kwargs)
    if not _asks(operator, changed):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            called_without_numbers(operator, args, kwargs)
    except Exception:  # an argument that names a dimension, or no shape function
        return None
    # Positions in a dimension of another size, of which shape functions know nothing.
    return changed if is_possible(operator, changed) else None


def _map(change: Callable[[TensorRecipe], TensorRecipe], arg: Arg) -> Arg:
    if isinstance(arg, TensorRecipe):
        return change(arg)
    if isinstance(arg, (tuple, list)):
        return type(arg)(_map(change, item) for item in arg)
    return arg


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(empty(tensor).shape)


def _formatted(full: tuple[int, ...] | None, tensor: TensorRecipe) -> TensorRecipe:
    """A tensor of such numbers, contiguous or, if it is one of an image, in channels_last; of
    the shape ``full``, if that is given and it has dimensions."""
    shape = _shape(tensor)
    shape = full if full is not None and shape else shape
    found = inverse("channels-last", shape, min) if len(shape) in (4, 5) else None
    base, steps = (shape, ()) if found is None else (found[0], (found[1],))
    view = (*steps, *(item for item in tensor.view if item[0] == "conj"))
    special = tuple(item for item in tensor.special if item[0] < math.prod(base))
    stop = tensor.stop + max(math.prod(base) - math.prod(tensor.base), 0)
    return replace(tensor, base=base, view=view, special=special, stop=stop)
