"""Variations of a drawn case: the same call with another layout, size or number.

Reported defects hang on narrow conditions that few draws meet: a contiguous slice that begins some
rows into its storage, a row of more than a block, an image that is no toy, one infinity, a number
that is -0.0. Of every eight cases of a batch one is replaced by a variation of itself.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from ..core.model import Case
from ..core.recipe import Literal, TensorRecipe
from ..operators import registry
from ..operators.call_forms import empty, shape_of
from ..operators.common_form import common_form
from ..operators.declare import Call, Operator
from .layouts import inverse
from .materialize import literal, prepare
from .memory_safety import ends_the_process, reads_beyond, writes_beyond

PERIOD = 8  # cases of a batch, of which one is varied
ATTEMPTS = 3  # variations of a case that are tried: not every call is possible
MOST_ELEMENTS = 1 << 14  # of a varied case, all tensors together
# Elements of an expanded tensor: its gradient has as many, and is compared in several precisions.
LARGEST_TENSOR = 1 << 22
MOST_PARTS = 2100  # tensors that it returns: each is compared by itself
MOST_RESULTS = 1 << 18  # numbers that it returns: `diagflat` of 16 K would be 1 GB
LONG = (40, 300, 1500)  # lengths beyond the sizes of blocks
ALONE = (2500, 9000)  # the length of a row, of all other sizes 1
SMALL = 2
IMAGE, CHANNELS = (33, 35), 8
INEXACT = 1.1  # a factor: few numbers that are drawn are multiples of 11
START = 3  # rows before a slice
# Value classes that have no structure; a matrix that is to be solved has one.
SHAPELESS = frozenset(
    {
        "uniform", "normal", "wide", "integers", "cancelling", "sparse", "offset", "powers",
        "subnormal", "near", "tokens",
    }
)  # fmt: skip
# Numbers whose squares leave float16 while the result does not, and where they are squared.
LARGE = ("normal", 0.0, 300.0)
SQUARING = frozenset({"normalization", "reduction"})
UNCHECKED = frozenset({"optimizers", "rnn"})  # kernels that check little, and end the process
# Whose sizes and options are chosen so that no rounding decides where a window begins, or a bin, or
# so that the inverse of a unit triangle is small: other layouts alone.
FIXED = frozenset(
    {
        "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "histogram",
        "lu_solve", "lu_solve.out", "linalg.lu_solve", "linalg.lu_solve.out", "linalg.ldl_solve",
        "linalg.ldl_solve.out",
    }
)  # fmt: skip
DIVIDED_BY = frozenset({"quantization"})  # scales, which are not zero
NUMBERS_ONLY = frozenset({"pooling"})  # torch takes an int or a float there
SQUARE = frozenset({"diagonal", "exchanged", "positive-definite"})  # of n x n matrices, n first


def with_variations(operator: Operator, cases: list[Case]) -> list[Case]:
    """The cases, of every eight the last one varied that has no special values and a variation that
    can be called."""
    changed = list(cases)
    for start in range(0, len(cases) - PERIOD + 1, PERIOD):
        for position in range(start + PERIOD - 1, start - 1, -1):
            other = _varied(operator, cases[position])
            if other is not None:
                changed[position] = other
                break
    return changed


def _varied(operator: Operator, case: Case) -> Case | None:
    """One of the case's variations, which its hash names; None where those tried cannot be
    called."""
    if any(t.special for t in case.tensors if isinstance(t, TensorRecipe)):
        return None
    found = [
        other
        for other in variations(operator, case)
        if other != case and _elements(other) is not None
    ]
    first = int(case.digest[:8], 16)
    tried = (found[(first + n) % len(found)] for n in range(min(ATTEMPTS, len(found))))
    return next((other for other in tried if is_possible(operator, other)), None)


def is_possible(operator: Operator, case: Case) -> bool:
    """Whether torch's CPU takes the call with tensors of no more than 2²² elements, returns no more
    than 2¹⁸ numbers in no more than 2,100 tensors, and no negative size, draws none (dropout in an
    attention), resizes no destination that has elements, which is deprecated, and what it returns
    hangs on no rounding. (Shape functions alone take a bias of the wrong size.)"""
    if not _destination_fits(operator, case) or _results(operator, case) > MOST_RESULTS:
        return False
    if ends_the_process(operator, case) or reads_beyond(operator, case):
        return False
    try:
        arguments = prepare(case).build()
        before = [t.shape for t in arguments.tensors]
        if any(t.numel() > LARGEST_TENSOR for t in arguments.tensors):
            return False
        if operator.is_defined is not None and not operator.is_defined(
            *common_form(operator, arguments.args, arguments.kwargs)
        ):
            return False
        with torch.no_grad(), torch.random.fork_rng(devices=()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.get_rng_state()
            result = operator(*arguments.args, **arguments.kwargs)
            is_random = not torch.equal(state, torch.get_rng_state())
            # A formula broadcasts what its operator refuses.
            if operator.family == "formulas" and operator.reference is not None:
                operator.reference(*arguments.args, **arguments.kwargs)
    except Exception:  # whatever an operator raises
        return False
    if _count(result) > MOST_RESULTS:  # of a function whose shape function does not know
        return False
    if result is NotImplemented or is_random or _has_negative_size(result):
        return False
    if isinstance(result, (list, tuple)) and len(result) > MOST_PARTS:
        return False
    if writes_beyond(operator, arguments.args, arguments.kwargs):
        return False
    pairs = zip(before, arguments.tensors, strict=True)
    return all(0 in shape or shape == tensor.shape for shape, tensor in pairs)


def _has_negative_size(result: object) -> bool:
    """``torch.tensor(1).expand(0, -1)`` is such a tensor (docs/findings.md)."""
    return isinstance(result, torch.Tensor) and min(result.shape, default=0) < 0


def _destination_fits(operator: Operator, case: Case) -> bool:
    """Whether a destination that has elements has the result's shape, as far as that is known
    without a call: torch tells of a resized one on the screen of the program."""
    if operator.form_of is None or not operator.leading:
        return True
    given = empty(case.args[0])
    others = Call(case.args[operator.leading :], dict(case.kwargs))
    expected = shape_of(others, operator.form_of) if given.numel() else None
    return expected is None or expected[0] == tuple(given.shape)


def _results(operator: Operator, case: Case) -> int:
    """The numbers that a call returns, by torch's shape function; 0 where that does not know."""
    if "elementwise" in operator.traits:
        try:
            return math.prod(np.broadcast_shapes(*(empty(t).shape for t in case.tensors)))
        except ValueError:
            return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            returned = operator(
                *(empty(arg) for arg in case.args),
                **{name: empty(value) for name, value in case.kwargs.items()},
            )
    except Exception:  # whatever a shape function, or the lack of one, raises
        return 0
    return _count(returned)


def _count(returned: object) -> int:
    items = returned if isinstance(returned, (list, tuple)) else [returned]
    return sum(item.numel() for item in items if isinstance(item, torch.Tensor))


def _elements(case: Case) -> int | None:
    """The elements of all tensors; None if there are too many."""
    count = sum(math.prod(t.base if isinstance(t, TensorRecipe) else t.shape) for t in case.tensors)
    return count if count <= MOST_ELEMENTS else None


def variations(operator: Operator, case: Case) -> Iterator[Case]:
    """All variations of a case; some cannot be called. None of :data:`UNCHECKED` families, and none
    of random numbers, whose sizes are chosen for tests of distributions."""
    if operator.family in UNCHECKED or "random" in operator.traits:
        return
    written = bool(operator.mutates or operator.leading or operator.name.endswith("_"))
    for number, tensor in enumerate(case.tensors[:4]):
        if isinstance(tensor, TensorRecipe) and tensor.base and _is_plain(tensor):
            for other in _layouts(tensor, overlap=not written):
                changed = with_tensor(case, number, other)
                if not ends_the_process(operator, changed):
                    yield changed
    if operator.name in FIXED:
        return
    # The numbers of products are chosen so that these many stay in range.
    longer = () if "prod" in operator.name else _longer(case)
    zeros = () if operator.family in DIVIDED_BY else _with_zeros(case)
    yield from itertools.chain(longer, _as_images(case), zeros, _with_inexact(case))
    if case.dtype == "float16" and operator.family in SQUARING and case.tensors:
        first = case.tensors[0]
        if isinstance(first, TensorRecipe) and _is_plain(first):
            yield with_tensor(case, 0, replace(first, values=LARGE))


def _layouts(tensor: TensorRecipe, *, overlap: bool) -> Iterator[TensorRecipe]:
    """The tensor, alone among the arguments, in other layouts. Where it may be written to, no two
    elements share memory."""
    yield sliced(tensor)
    shape = tensor.base
    if math.prod(shape) < 2:
        return
    names = ("transpose", "slice", "expand", "channels-last")
    for name in names if len(shape) > 1 else names[1:]:
        found = inverse(name, shape, min, overlap=overlap)
        if found is not None:
            base, step = found
            yield replace(tensor, base=base, view=(step,), special=())


def _is_plain(tensor: TensorRecipe) -> bool:
    """Whether the tensor can have another shape: it is no view, and its numbers have no order."""
    return not tensor.view and tensor.values[0] in SHAPELESS


def sliced(tensor: TensorRecipe) -> TensorRecipe:
    """The same numbers as a contiguous slice that begins some rows into its storage."""
    size, *others = tensor.base
    before = START * math.prod(others)
    return replace(
        tensor,
        base=(START + size, *others),
        view=(("slice", 0, START, START + size, None),),
        special=tuple((position + before, token) for position, token in tensor.special),
    )


def _longer(case: Case) -> Iterator[Case]:
    """Every size of the case in turn made long, wherever it occurs; once more with all other sizes
    small, and 1: a product of a row and a column, a single channel."""
    found = {size for t in case.tensors if isinstance(t, TensorRecipe) for size in t.base}
    sizes = found - {0, 1}
    for size in sorted(sizes):
        for length in LONG:
            yield with_sizes(case, {size: length})
            yield with_sizes(case, {size: length, **dict.fromkeys(sizes - {size}, SMALL)})
        for length in ALONE if len(sizes) > 1 else ():
            yield with_sizes(case, {size: length, **dict.fromkeys(sizes - {size}, 1)})


def _as_images(case: Case) -> Iterator[Case]:
    """The first tensor an image of 33 x 35 pixels, in its own number of channels and in 8 or
    more."""
    first = case.tensors[0] if case.tensors else None
    if not isinstance(first, TensorRecipe) or len(first.base) != 4 or not _is_plain(first):
        return
    count, channels = first.base[:2]
    for wide in sorted({channels, CHANNELS * channels, CHANNELS}):
        image = _filled(replace(first, base=(min(count, 1), wide, *IMAGE)), first)
        yield with_tensor(case, 0, image)
        if wide != channels and channels > 1:
            # What else has as many channels (weights, statistics) grows as well.
            yield with_tensor(with_sizes(case, {channels: wide}), 0, image)


def _with_zeros(case: Case) -> Iterator[Case]:
    """Every fraction among the arguments in turn 0.0 and -0.0."""
    for position, value in enumerate(case.args):
        for zero in (0.0, -0.0) if isinstance(value, float) else ():
            yield replace(case, args=(*case.args[:position], zero, *case.args[position + 1 :]))


def _with_inexact(case: Case) -> Iterator[Case]:
    """Every fraction of the call in turn a number that no format holds, also beside elements that
    lie around it; among the arguments also as a tensor of float64 without dimensions, which counts
    as a number beside others."""
    operator = registry().get(case.operator)
    leaf = operator is None or operator.family not in NUMBERS_ONLY
    beside = any(t.base and not t.view for t in case.tensors if isinstance(t, TensorRecipe))
    for position, value in enumerate(case.args):
        if isinstance(value, float) and value and math.isfinite(value):
            number = INEXACT * value
            for other in (number, _single(number, leaf)) if beside else (number,):
                before, after = case.args[:position], case.args[position + 1 :]
                yield from _beside_elements(replace(case, args=(*before, other, *after)), number)
    nearest = str(case.kwargs.get("mode", "nearest")).startswith("nearest")
    for name, value in case.kwargs.items():
        if name == "scale_factor" and nearest:
            continue  # which pixel is nearest may hang on how a coordinate is rounded
        if isinstance(value, float) and value and math.isfinite(value):
            number = INEXACT * value
            yield from _beside_elements(replace(case, kwargs={**case.kwargs, name: number}), number)


def _beside_elements(case: Case, number: float) -> Iterator[Case]:
    """The case, and with its first tensor's elements around a number and its negative."""
    yield case
    first = case.tensors[0] if case.tensors else None
    if isinstance(first, TensorRecipe) and _is_plain(first) and first.dtype == case.dtype:
        size = abs(number)
        values = ("near", -4.0 * size, 4.0 * size, -size, size)
        yield with_tensor(case, 0, replace(first, values=values))


def _single(value: float, leaf: bool) -> Literal:
    """The number as a tensor without dimensions."""
    return replace(literal(torch.tensor(value, dtype=torch.float64)), leaf=leaf)


def with_tensor(case: Case, number: int, tensor: TensorRecipe) -> Case:
    """The case with its tensor of that number replaced."""
    return case.with_tensors(tensor if n == number else t for n, t in enumerate(case.tensors))


def with_sizes(case: Case, sizes: dict[int, int]) -> Case:
    """The case with other sizes."""
    recipes = [t for t in case.tensors if isinstance(t, TensorRecipe)]
    kept = {size for t in recipes if not _is_resizable(t) for size in t.base}
    return case.with_tensors(
        _resized(t, sizes, kept) if isinstance(t, TensorRecipe) else t for t in case.tensors
    )


def _is_resizable(tensor: TensorRecipe) -> bool:
    return _is_plain(tensor) or (tensor.values[0] in SQUARE and not tensor.view)


def _resized(tensor: TensorRecipe, sizes: dict[int, int], kept: set[int]) -> TensorRecipe:
    """Another shape, if it may have one; positions within a size reach to its new end, but for
    those within a tensor that keeps its size: some kernels do not check them, and read or write
    whatever is there."""
    values = tensor.values
    if values[0] in SQUARE:
        values = (values[0], sizes.get(values[1], values[1]), *values[2:])
    elif values[0] == "integers" and values[2] + 1 in sizes.keys() - kept:
        values = (values[0], values[1], sizes[values[2] + 1] - 1)
    if not _is_resizable(tensor):
        return replace(tensor, values=values) if values[0] == "integers" else tensor
    base = tuple(sizes.get(size, size) for size in tensor.base)
    return _filled(replace(tensor, base=base, values=values), tensor)


def _filled(tensor: TensorRecipe, before: TensorRecipe) -> TensorRecipe:
    """The tensor without blank numbers: its window ends further on by what it grew."""
    count = math.prod(tensor.base)
    grown = max(count - math.prod(before.base), 0)
    special = tuple(item for item in tensor.special if item[0] < count)
    return replace(tensor, stop=tensor.stop + 2 * grown, special=special)
