"""Which calls of an operator repeat with their arguments: found by trying, in float64.

Several repetitions and a rest must give what one and the rest give, along one dimension of each
result, or the same result; and so must the gradients.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from ...core import dtypes
from ...core.gradients import vector_jacobian_product
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...core.tiling import Tiling, repeated
from ...core.trees import flatten
from ...operators.declare import Operator
from ...operators.refusals import REFUSALS
from ..fill import fill
from ..materialize import prepare
from .tile_call import KINDS, PERIOD, SUMS, TileCall

ATTEMPTS = 10
MANY = (5, 6)  # repetitions in trials: a product of signs repeats with an odd number of them
COTANGENT = 1 << 20  # the end of its window in the bitstream
_MOST_CANDIDATES = 12
_TOLERANCE = 1e-9  # relative, of float64 results in another order of summation
_MOST_ELEMENTS = 1 << 19  # of a tensor of a candidate: trials repeat it several times, in float64
_ROUNDING, _VANISHED = 1e-14, 1e-18  # of the largest number
_RESTS = (0, 100, 255)  # what is left over in trials
# Declared to learn of programs, formulas and derivatives; their operators have large cases
# themselves.
_NOT = frozenset({"formulas", "derivatives", "programs", "sequences", "random", "creation"})
NEITHER = -1  # a result that neither repeats nor stays the same
Tensors = list[torch.Tensor | None]


@dataclass(frozen=True)
class Tile:
    """A small case that repeats, with a tiling of the least size. ``largest`` is the number of
    elements of its largest tensor or result per element of the repeated dimension, ``bytes`` what
    its inputs and results take of memory per element. ``whole``: it repeats only if nothing is left
    over."""

    case: Case
    largest: float
    bytes: float
    whole: bool = False

    @property
    def reduced(self) -> bool:
        """Whether a result does not grow with the repeated dimension."""
        assert self.case.tiling is not None
        return None in self.case.tiling.outs


@functools.lru_cache(maxsize=4096)
def tiles(operator: Operator, dtype: str) -> tuple[Tile, ...]:
    """The small cases of an operator in one dtype that repeat: one whose results all repeat (rows,
    elements), and one with a result that does not grow (a long dimension that is reduced); none
    where nothing was found. Their tilings have the least size."""
    found: list[Tile] = []
    for reduced, rests in ((False, _RESTS), (True, _RESTS), (True, (0,))):
        whole = len(rests) == 1
        if whole and any(tile.reduced for tile in found):
            break
        case = next(_candidates(operator, dtype, reduced, rests), None)
        if case is not None:
            found.append(_measured(operator, case, whole))
    return tuple(found)


def varieties(operator: Operator, dtype: str) -> tuple[Tile, ...]:
    """The tiles of an operator and, where it is not elementwise, two more whose results all repeat:
    along the first dimension of as many tensors as there can be (a batch, with a bias), and along
    another one (columns, channels)."""
    found = list(tiles(operator, dtype))
    if not found or "elementwise" in operator.traits or operator.form_of is not None:
        return tuple(found)
    others = [*_candidates(operator, dtype, False, _RESTS, ("plain",))]
    batches = [case for case in others if case.tiling is not None and case.tiling.dims[0] == 0]
    batches = [case for case in batches if max(len(_shape(t)) for t in case.tensors) > 2] or batches
    columns = [case for case in others if case not in batches]
    chosen = [max(batches, key=lambda case: len(case.tensors))] if batches else []
    known = {tile.case.digest for tile in found}
    more = [case for case in (*chosen, *columns[:1]) if case.digest not in known]
    return (*found, *(_measured(operator, case, False) for case in more))


def _shape(tensor: TensorRecipe | Literal) -> tuple[int, ...]:
    return tensor.base if isinstance(tensor, TensorRecipe) else tensor.shape


def _measured(operator: Operator, case: Case, whole: bool) -> Tile:
    tiling = case.tiling
    assert tiling is not None
    width = torch.empty(0, dtype=dtypes.TORCH[case.dtype]).element_size()
    sizes = [math.prod(t.base) for t in case.tensors if isinstance(t, TensorRecipe)]
    sizes += [t.numel() for t in results(operator, case) if t is not None]
    return Tile(case, max(sizes) / PERIOD, sum(sizes) * width / PERIOD, whole)


def _candidates(
    operator: Operator,
    dtype: str,
    reduced: bool,
    rests: Sequence[int],
    kinds: Sequence[str] = KINDS,
) -> Iterator[Case]:
    """Cases that hold with these rests. ``reduced``: those in which a result does not grow."""
    unfit = operator.cases is not None or operator.callable is None or operator.family in _NOT
    if unfit or "random" in operator.traits:
        return
    seen: set[str] = set()
    model = operator.error.of(dtype)
    if reduced and model.kind != "exact":
        # Millions of rounded terms err more than the few of the small case: sums must be exact.
        kinds = SUMS if model.integers_exact or "linear" in operator.traits else ()
    for kind, attempt in itertools.product(kinds, range(ATTEMPTS)):
        try:
            call = operator.sample(TileCall(dtype, attempt, kind))
        except REFUSALS:  # it needs other sizes or options
            continue
        case = Case(operator.name, dtype, call.args, call.kwargs)
        sizes = [math.prod(_shape(tensor)) for tensor in case.tensors]
        if case.digest in seen or max(sizes, default=0) > _MOST_ELEMENTS:
            continue
        seen.add(case.digest)
        for dims in _dims(case, complete=reduced):
            held = _held(operator, case, dims, reduced, rests)
            if held is not None:
                yield held


def _dims(case: Case, *, complete: bool) -> Iterator[tuple[int | None, ...]]:
    """Choices of the dimensions that are repeated, first those of all tensors with the period;
    ``complete``: no others. Some functions do not check whether reduced dimensions agree."""
    options: list[list[int | None]] = []
    for tensor in case.tensors:
        fits = isinstance(tensor, TensorRecipe) and not tensor.view
        dims = [d for d, size in enumerate(tensor.base) if size == PERIOD] if fits else []
        options.append([*dims, *[None] * (not dims or not complete)])
    choices = (dims for dims in itertools.product(*options) if any(d is not None for d in dims))
    return itertools.islice(choices, _MOST_CANDIDATES)


def _held(
    operator: Operator,
    case: Case,
    dims: tuple[int | None, ...],
    reduced: bool,
    rests: Sequence[int],
) -> Case | None:
    """The case with its tiling if its results repeat along some dimensions; else None."""
    try:
        outs: list[int | None] | None = None
        for rest, many in itertools.product(rests, MANY):
            small = replace(case, tiling=Tiling(PERIOD + rest, PERIOD, dims))
            large = replace(case, tiling=Tiling(many * PERIOD + rest, PERIOD, dims))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                a, b = results(operator, small), results(operator, large)
            places = [_place(x, y, rest, many) for x, y in zip(a, b, strict=True)]
            if outs is not None and places != outs:
                return None
            outs = places
        assert outs is not None
        if NEITHER in outs or reduced != (None in outs):
            return None
        if not reduced and not any(_varies(x, d) for x, d in zip(a, outs, strict=True)):
            return None
        written = outs[len(outs) - len(operator.mutates) :] if operator.mutates else []
        if any(place != 0 for place in written):
            return None
        returned = tuple(outs[: len(outs) - len(written)])
        tiling = Tiling(PERIOD, PERIOD, dims, returned)
        if reduced and operator.observe is not None:
            return None  # it looks results up in arguments that are smaller here
    except REFUSALS:  # it refuses these shapes
        return None
    if operator.differentiable and dtypes.floats(case.dtype):
        tiling = replace(tiling, backward=_gradients_repeat(operator, case, tiling, rests))
    cotangent = COTANGENT if tiling.backward else 0
    return replace(case, tiling=tiling, cotangent=cotangent)


def _varies(result: torch.Tensor | None, dim: int | None) -> bool:
    """Whether a result is not the same everywhere along a dimension: only then it shows where
    something is wrong."""
    if result is None or dim is None or not result.numel():
        return False
    return not _equal(result, result.narrow(dim, 0, 1).expand_as(result))


def results(operator: Operator, case: Case) -> Tensors:
    """The returned tensors in float64, and the storages that were written."""
    arguments = prepare(case).build("float64")
    returned = (operator.reference or operator)(*arguments.args, **arguments.kwargs)
    outputs = [item if isinstance(item, torch.Tensor) else None for item in flatten([returned])]
    return outputs + [arguments.bases[i] for i in operator.mutates]


def _place(
    small: torch.Tensor | None, large: torch.Tensor | None, rest: int, many: int
) -> int | None:
    """The dimension along which a result repeats; None if it is the same; NEITHER otherwise."""
    if small is None or large is None or small.ndim != large.ndim:
        return NEITHER
    if small.shape == large.shape:
        return None if _equal(small, large) else NEITHER
    grown = [d for d in range(small.ndim) if small.shape[d] != large.shape[d]]
    if len(grown) != 1:
        return NEITHER
    (dim,) = grown
    unit, left = divmod(small.shape[dim], PERIOD + rest)
    if left or large.shape[dim] != unit * (many * PERIOD + rest):
        return NEITHER
    tile = small.narrow(dim, 0, unit * PERIOD)
    both = all(
        _equal(whole, repeated(tile, dim, Tiling(size, PERIOD, ())))
        for whole, size in ((small, PERIOD + rest), (large, many * PERIOD + rest))
    )
    return dim if both else NEITHER


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype:
        return False
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    if bool((a.isnan() != b.isnan()).any()):
        return False
    size, error = a.abs(), torch.where(a == b, 0.0, (a - b).abs().nan_to_num(0.0))
    scale = float(size.nan_to_num(0.0, 0.0).max()) if size.numel() else 0.0
    # Numbers that vanish are no roundings of others.
    rounded = (error <= _ROUNDING * scale) & (size > _VANISHED * scale)
    return bool((rounded | (error <= _TOLERANCE * size) | (error == 0.0)).all())


def _gradients_repeat(operator: Operator, case: Case, tiling: Tiling, rests: Sequence[int]) -> bool:
    """Whether the gradients of the repeated tensors repeat."""
    dims = [dim for dim in tiling.dims if dim is not None]
    for rest, many in itertools.product(rests, MANY):
        try:
            small, large = (
                _gradients(operator, replace(case, tiling=replace(tiling, size=size)))
                for size in (PERIOD + rest, many * PERIOD + rest)
            )
        except REFUSALS:  # it has none with these shapes
            return False
        if not small or not all(
            _place(a, b, rest, many) in dims for a, b in zip(small, large, strict=True)
        ):
            return False
    return True


def _gradients(operator: Operator, case: Case) -> Sequence[torch.Tensor | None]:
    tiling = case.tiling
    assert tiling is not None
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = prepare(case).build("float64", gradients=operator.leaves)
        leaves = [arguments.tensors[i] for i in arguments.leaves]
        args = list(arguments.args)
        for i in operator.mutates:
            args = [a.clone() if a is arguments.tensors[i] else a for a in args]
        if not leaves:
            return []
        returned = (operator.reference or operator)(*args, **arguments.kwargs)
        pairs = [
            (root, _cotangent(root, tiling, place))
            for place, root in enumerate(flatten([returned]))
            if isinstance(root, torch.Tensor) and root.requires_grad
        ]
        if not pairs:
            return []
        roots, cotangents = zip(*pairs, strict=True)
        return vector_jacobian_product(roots, leaves, cotangents, allow_unused=True)


def _cotangent(root: torch.Tensor, tiling: Tiling, place: int) -> torch.Tensor:
    dim = tiling.outs[place]
    tile = root.detach()
    if dim is not None:
        tile = tile.narrow(dim, 0, root.shape[dim] // tiling.size * tiling.period)
    count = tile.numel() * (2 if tile.is_complex() else 1)
    flat = torch.from_numpy(fill(count, "float64", ("uniform", -1.0, 1.0), COTANGENT))
    flat = torch.view_as_complex(flat.reshape(-1, 2)) if tile.is_complex() else flat
    whole = flat.to(root.dtype).reshape(tile.shape)
    return whole if dim is None else repeated(whole, dim, tiling)
