"""Other sizes, ranks and pairs of shapes that broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...operators.declare import Operator
from ..variations import SHAPELESS, SMALL, _filled, with_sizes, with_tensor

# Sizes at which kernels change: a warp, a tile, a block, a scan, a launch; whole ones and one more.
THRESHOLDS = (24, 32, 33, 64, 65, 129, 257, 513, 1025, 2049, 4097, 16385, 65537)
WHOLE, LEFT_OVER = 64, 33  # of one size whole tiles, of the others what is left over
PAIRS = ((24, 64), (33, 64), (64, 33), (65, 129), (129, 33), (513, 2561), (4097, 9))
RANKS = ((2,), (2, 3), (2, 2, 3))  # dimensions in front
BEHIND = ((1,), (1, 1, 1))  # of one element each
# More taps than a block of 256 threads, in all or in one dimension.
LONG_KERNELS = {1: ((300,),), 2: ((17, 16), (1, 300)), 3: ((7, 7, 7),)}
KERNELS = (1, 3, 5)  # products of matrices, Winograd's algorithm, transforms
PIXELS, WIDE = (32, 33), (16, 32)  # an image of whole tiles and one that is not, its channels
MOST_OTHERS = 4  # tensors whose shape is changed beside the first


def of(operator: Operator, case: Case) -> Iterator[Case]:
    """Sizes, pairs of sizes, ranks, broadcasting, images."""
    # The numbers of products are chosen so that these many stay in range.
    if "prod" not in operator.name:
        yield from thresholds(case)
        yield from pairs(case)
    yield from ranks(case)
    yield from broadcast(case)
    yield from images(case)
    yield from windows(operator, case)
    yield from even_kernels(case)
    yield from long_kernels(case)


def sizes_of(case: Case) -> list[int]:
    """The sizes that occur, without 0 and 1."""
    tensors = [t for t in case.tensors if isinstance(t, TensorRecipe)]
    return sorted({size for t in tensors for size in t.base} - {0, 1})


def thresholds(case: Case) -> Iterator[Case]:
    """Every size in turn at 1 (one channel, one row), at 0 and at every threshold, wherever it
    occurs; all others as they are, small, and 1."""
    sizes = sizes_of(case)
    for size in sizes:
        yield with_sizes(case, {size: 1})
        yield with_sizes(case, {size: 0})
    for size, length in itertools.product(sizes, THRESHOLDS):
        yield with_sizes(case, {size: length})
        yield with_sizes(case, {**dict.fromkeys(sizes, SMALL), size: length})
        yield with_sizes(case, {**dict.fromkeys(sizes, 1), size: length})


def pairs(case: Case) -> Iterator[Case]:
    """Two sizes at thresholds, whole tiles beside what is left over; all others small."""
    sizes = sizes_of(case)
    for first, second in itertools.permutations(sizes, 2):
        for lengths in PAIRS:
            chosen = {first: lengths[0], second: lengths[1]}
            yield with_sizes(case, {**dict.fromkeys(sizes, SMALL), **chosen})
    for length in (LEFT_OVER, WHOLE):
        yield with_sizes(case, dict.fromkeys(sizes, length))


def ranks(case: Case) -> Iterator[Case]:
    """Dimensions in front of all tensors, and in front of each alone; of one element behind."""
    plain = [_reshapable(t) for t in case.tensors]
    for ones in BEHIND:
        yield case.with_tensors(
            _reshaped(t, (*t.base, *ones)) if ok and isinstance(t, TensorRecipe) else t
            for t, ok in zip(case.tensors, plain, strict=True)
        )
    for more in RANKS:
        yield case.with_tensors(
            _reshaped(t, (*more, *t.base)) if ok and isinstance(t, TensorRecipe) else t
            for t, ok in zip(case.tensors, plain, strict=True)
        )
        for number, tensor in enumerate(case.tensors[:MOST_OTHERS]):
            if plain[number] and isinstance(tensor, TensorRecipe):
                yield with_tensor(case, number, _reshaped(tensor, (*more, *tensor.base)))


def broadcast(case: Case) -> Iterator[Case]:
    """Each tensor in turn with dimensions left out, of size 1, or more of them; all of them as
    single elements."""
    for single in ((), (1,)):
        yield case.with_tensors(
            _reshaped(t, single) if isinstance(t, TensorRecipe) and _reshapable(t) else t
            for t in case.tensors
        )
    for number, tensor in enumerate(case.tensors[:MOST_OTHERS]):
        if not isinstance(tensor, TensorRecipe) or not _reshapable(tensor):
            continue
        for shape in _broadcastable(tensor.base):
            yield with_tensor(case, number, _reshaped(tensor, shape))


def _broadcastable(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    rank = len(shape)
    yield from ((), (1,), (1,) * max(rank, 1))
    for left_out in range(1, rank):
        yield shape[left_out:]
    for dim in range(rank):
        yield (*shape[:dim], 1, *shape[dim + 1 :])  # one dimension of size 1
        yield (*(1,) * dim, shape[dim], *(1,) * (rank - dim - 1))  # all but one
        yield (shape[dim], *(1,) * (rank - dim - 1))  # these without those in front
    yield (1, *shape)


def images(case: Case) -> Iterator[Case]:
    """The first tensor an image of 32 x 32 or 33 x 33 pixels with 16 or 32 channels, and whatever
    has as many channels as it had; a second one of four dimensions with kernels that have programs
    of their own."""
    first = case.tensors[0] if case.tensors else None
    if not isinstance(first, TensorRecipe) or len(first.base) != 4 or not _reshapable(first):
        return
    batch, channels = first.base[:2]
    kernel = case.tensors[1] if len(case.tensors) > 1 else None
    sides: tuple[int | None, ...] = (None,)
    if isinstance(kernel, TensorRecipe) and len(kernel.base) == 4 and _reshapable(kernel):
        sides = (None, *KERNELS)
    for wide, pixels in itertools.product(WIDE, PIXELS):
        other = with_sizes(case, {channels: wide}) if channels > 1 else case
        image = _reshaped(first, (min(batch, 2), wide, pixels, pixels))
        changed = with_tensor(other, 0, image)
        for side in sides:
            weight = changed.tensors[1] if side is not None else None
            if side is None or not isinstance(weight, TensorRecipe):
                yield changed
            else:
                shape = (*weight.base[:2], side, side)
                yield with_tensor(changed, 1, _reshaped(weight, shape))


def windows(operator: Operator, case: Case) -> Iterator[Case]:
    """A window as large as the image: of pooling, whose second argument says so."""
    name = operator.name.removeprefix("nn.functional.")
    first = case.tensors[0] if case.tensors else None
    if "pool" not in name or name[-2:] not in ("1d", "2d", "3d") or "adaptive" in name:
        return
    place = 2 if name.startswith("lp_") else 1
    if isinstance(first, TensorRecipe) and not first.view and len(case.args) > place:
        size = list(first.base[-int(name[-2]) :])
        args = (*case.args[:place], size, *case.args[place + 1 :])
        yield replace(case, args=args)
        yield replace(case, args=args, kwargs={})


def even_kernels(case: Case) -> Iterator[Case]:
    """A second tensor that is a kernel with even sizes, padded to keep the size, and by one."""
    first, kernel = (*case.tensors[:2], None, None)[:2]
    if not isinstance(first, TensorRecipe) or not isinstance(kernel, TensorRecipe):
        return
    if not _reshapable(kernel) or len(kernel.base) < 3 or len(first.base) != len(kernel.base):
        return
    for sides in ((2,), (2, 4), (4, 3)):
        repeated = (sides * 3)[: len(kernel.base) - 2]
        changed = with_tensor(case, 1, _reshaped(kernel, (*kernel.base[:2], *repeated)))
        yield changed
        for padding in ("same", 1):
            yield replace(changed, kwargs={**changed.kwargs, "padding": padding})


def long_kernels(case: Case) -> Iterator[Case]:
    """A second tensor that is a kernel of more than 256 elements, and images that are larger, two
    of them."""
    first, kernel = (*case.tensors[:2], None, None)[:2]
    if not isinstance(first, TensorRecipe) or not isinstance(kernel, TensorRecipe):
        return
    rank = len(kernel.base) - 2
    if not _reshapable(kernel) or rank not in LONG_KERNELS or len(first.base) != rank + 2:
        return
    for sides in LONG_KERNELS[rank]:
        changed = with_tensor(case, 1, _reshaped(kernel, (*kernel.base[:2], *sides)))
        larger = (2, first.base[1], *(side + SMALL for side in sides))
        yield with_tensor(changed, 0, _reshaped(first, larger))


def _reshapable(tensor: object) -> bool:
    return isinstance(tensor, TensorRecipe) and not tensor.view and tensor.values[0] in SHAPELESS


def _reshaped(tensor: TensorRecipe, shape: tuple[int, ...]) -> TensorRecipe:
    return _filled(replace(tensor, base=shape, special=()), tensor)
