"""Companions of a case: other inputs whose results are known to be elements of the case's own.

- ``layout``: the same tensors, contiguous and with memory of their own;
- ``batch``: one item of the batch alone, and every other item;
- ``length``: for elementwise operators one element alone, and all elements at the beginning of a
  longer tensor, so that the last ones are no rest behind whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from ...core.model import Output
from ...core.recipe import TensorRecipe
from ...core.views import written
from ...errors import RecipeError
from ...generate.literal_copies import Change, literal_copy
from ...generate.materialize import Materials
from ...operators.declare import Operator
from .relations import BATCH, LAYOUT, LENGTH, batch_positions, relations

Part = Callable[[torch.Tensor], torch.Tensor]  # some elements of a tensor, as a view of it

_VECTOR = 64  # elements: a multiple of the length of every vector
_AFTER = 2 * _VECTOR  # elements behind those of the case in a longer tensor
_LONGEST = 1 << 17  # elements of a longer tensor


@dataclass(frozen=True)
class Companion:
    """Other inputs, and how their results belong to the case's.

    ``part`` gives the elements of one of the case's contiguous results that ``taken``, applied to
    the companion's result, must equal. ``here`` and ``there`` tell in words where the numbers are
    in the case and in the companion.
    """

    relation: str
    here: str
    there: str
    materials: Materials
    part: Part
    taken: Part

    def completed(
        self,
        outputs: tuple[Output, ...],
        others: tuple[Output, ...],
        original: Materials,
        dtype: str | None,
    ) -> tuple[Output, ...] | None:
        """``outputs``, those of the case, with the elements that ``others``, the companion's,
        say; None where they do not fit. Both were computed in ``dtype``."""
        if len(outputs) != len(others):
            return None
        bases = original.build(dtype) if any(o.name.startswith("arg/") for o in outputs) else None
        completed = []
        for output, other in zip(outputs, others, strict=True):
            if output.tensor is None or other.tensor is None:
                completed.append(other if self.relation == LAYOUT else output)
                continue
            whole, view = output.tensor, None
            if output.name.startswith("arg/") and bases is not None:
                position = int(output.name.removeprefix("arg/"))
                view = bases.tensors[position]
                whole = whole.as_strided(view.shape, view.stride(), view.storage_offset())
                whole = whole.conj() if view.is_conj() else whole
                shape = self.materials.case.tensors[position].shape  # type: ignore[union-attr]
                other = replace(other, tensor=other.tensor.view(shape))
            assert other.tensor is not None
            values = _with(whole, self.part, self.taken, other.tensor, self.relation == LAYOUT)
            if values is None:
                return None
            if view is not None and bases is not None:
                # Where nothing was written, the memory is as it was.
                base = bases.bases[position] if self.relation == LAYOUT else output.tensor
                values = values.conj() if view.is_conj() else values
                try:
                    values = written(base, view, values)
                except RuntimeError:  # elements that overlap
                    return None
            completed.append(replace(output, tensor=values))
        return tuple(completed)


def _with(
    whole: torch.Tensor, part: Part, taken: Part, other: torch.Tensor, entire: bool
) -> torch.Tensor | None:
    other = other.detach().resolve_conj().resolve_neg()
    if entire:  # of another shape, too, which is a difference itself
        return other
    values = (
        whole.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    )
    try:
        place, found = part(values), taken(other)
    except (RuntimeError, IndexError):
        return None
    if place.shape != found.shape or place.dtype != found.dtype:
        return None
    place.copy_(found)
    return values


def companions(
    operator: Operator, materials: Materials, direction: str, outputs: tuple[Output, ...]
) -> Iterator[Companion]:
    """The companions of a case that its operator is held to; ``outputs`` are the case's own.

    Only of cases that were drawn, and that do not hold repeated tensors; forward except for
    ``layout``.
    """
    held = relations(operator.name)
    case = materials.case
    if case.source or case.tiling is not None or not case.tensors:
        return
    if any(isinstance(tensor, TensorRecipe) and tensor.shared for tensor in case.tensors):
        return  # copies do not share their memory, through which gradients go
    tensors = materials.build().tensors
    if held.get(LAYOUT) == "":
        yield from in_another_layout(materials, tensors)
    if direction == "backward":
        return
    shapes = result_shapes(operator, tensors, outputs)
    if held.get(LENGTH) == "":
        yield from in_other_lengths(materials, tensors, shapes)
    positions = batch_positions(operator, case, [tuple(t.shape) for t in tensors], shapes)
    if positions:
        yield from apart(materials, positions, tensors[positions[0]].shape[0])


def result_shapes(
    operator: Operator, tensors: list[torch.Tensor], outputs: tuple[Output, ...]
) -> list[tuple[int, ...]]:
    """The shapes of what a call returns and of the arguments that it writes."""
    returned = [o.tensor for o in outputs if not o.name.startswith("arg/")]
    written_to = [tensors[i] for i in operator.mutates if i < len(tensors)]
    return [tuple(t.shape) for t in (*returned, *written_to) if t is not None]


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def in_another_layout(materials: Materials, tensors: list[torch.Tensor]) -> Iterator[Companion]:
    lazy = any(t.is_conj() or t.is_neg() for t in tensors)
    strided = any(not t.is_contiguous() for t in tensors)
    if not lazy and not strided and not any(t.storage_offset() for t in tensors):
        if not materials.case.cotangent_layout:
            return
        here = "where the cotangent is not contiguous"
    elif lazy:
        here = "where conjugation is left to the operator"
    elif strided:
        here = "where the inputs are strided"
    else:
        here = "where an input begins inside of its memory"
    copies = _copies(materials)
    if copies is not None:
        yield Companion(LAYOUT, here, "where all is contiguous", copies, _whole, _whole)


def in_other_lengths(
    materials: Materials,
    tensors: list[torch.Tensor],
    shapes: list[tuple[int, ...]],
) -> Iterator[Companion]:
    """One element alone, and all at the beginning of more."""
    if not shapes or any(shape != shapes[0] for shape in shapes):
        return
    (shape, *_), size = shapes, math.prod(shapes[0])
    if not shape or size < 2:
        return

    def flat(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.broadcast_to(shape).reshape(-1)

    def only(change: Callable[[torch.Tensor], torch.Tensor]) -> Materials | None:
        # A tensor without dimensions has no say in the dtype of the result; it must stay one.
        return _copies(materials, lambda t, _: change(flat(t)) if t.ndim else t)

    there = _chosen(materials, size)
    alone = only(lambda t: t[there : there + 1])
    if alone is not None:
        yield Companion(
            LENGTH,
            f"among {size} elements",
            "alone",
            alone,
            lambda t: t.reshape(-1)[there : there + 1],
            lambda t: t.reshape(-1),
        )
    length = -(-size // _VECTOR) * _VECTOR + _AFTER
    if length > _LONGEST:
        return
    order = torch.arange(length) % size
    longer = only(lambda t: t[order])
    if longer is not None:
        yield Companion(
            LENGTH,
            f"among {size} elements",
            f"among {length}",
            longer,
            lambda t: t.reshape(-1),
            lambda t: t.reshape(-1)[:size],
        )


def apart(materials: Materials, positions: tuple[int, ...], size: int) -> Iterator[Companion]:
    """One item of the batch alone, and every other one."""
    item = _chosen(materials, size)
    ways = {slice(item, item + 1).indices(size): f"item {item} alone"}
    if size > 2:
        ways[slice(1, None, 2).indices(size)] = "among every other item"
    else:
        ways[slice(1, 2).indices(size)] = "item 1 alone"
    for bounds, words in ways.items():
        where = slice(*bounds)
        copies = _copies(materials, _rows(positions, where))
        if copies is not None:
            yield Companion(
                BATCH, f"in a batch of {size}", words, copies, _selecting(where), _whole
            )


def _rows(positions: tuple[int, ...], where: slice) -> Change:
    return lambda tensor, position: tensor[where] if position in positions else tensor


def _selecting(where: slice) -> Part:
    return lambda tensor: tensor[where]


def _chosen(materials: Materials, size: int) -> int:
    """The last element or item in half of the cases, where what is left over lies; else one
    chosen by the case."""
    number = int(materials.case.digest[16:24], 16)
    return size - 1 if number % 2 else (number >> 1) % size


def _copies(materials: Materials, change: Change = lambda tensor, _: tensor) -> Materials | None:
    try:
        return literal_copy(materials, change)
    except (RecipeError, RuntimeError, IndexError):
        return None
