"""Further conditions on which reported defects depend: sizes of every dimension, ranks, patterns of
broadcasting, strides, kinds of numbers, signs. Each has a weight; :mod:`.reach` chooses by them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from consistency.core.dtypes import floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe, owner
from consistency.generate.varied import values
from consistency.judge.known.case_facts import UNKNOWN, Facts

from . import plain_calls
from .plain_calls import is_ordinary

THRESHOLDS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 1 << 14, 1 << 16)
TILE = 32
MOST_TENSORS, MOST_DIMS = 4, 3
LARGEST_RANK = 6
CHANNELS = 16
FEW_CHANNELS = (4, 8)
LONG_WITH_NAN = (256, 512)
LONG_CONSTANTS = (128, 512, 8192, 65535)
MANY_TIMES = 6
HEADS, WIDE_HEAD, FEW_ROWS = 4, 64, 8  # dimensions of attention, and what few queries are
INTEGERS = (1, 127, 255, 32767, 1 << 24)  # ends of what bool, int8, uint8, int16, float32 hold
FAR = 20  # octaves
FAR_FROM_ZERO = 1 << 24  # neighboring integers from here on are one number in float32
BEHIND = 4  # dimensions that some programs have at most
TAPS = 256  # a block of threads, one for each element of a kernel
LARGE_NUMBER, SMALL_NUMBER = 64, 1e-3
ORDERED = 4  # dimensions whose order in memory is told


def further(case: Case) -> Iterator[tuple[str, float]]:
    """The conditions that a case meets, with their weights."""
    facts = Facts(case)
    shapes = [facts.described("shape", t) for t in case.tensors[:MOST_TENSORS]]
    known = [s if isinstance(s, tuple) else None for s in shapes]
    ordinary = is_ordinary(case, known)
    options = list(_options(case))
    named = values.named_numbers(case)
    around = values.around(named) if named else ()
    for number, (tensor, shape) in enumerate(zip(case.tensors, known, strict=False)):
        if shape is None:
            continue
        told = f"tensor {number}"
        yield from _of_sizes(told, shape)
        for text, weight in _of_strides(told, facts, tensor, shape):
            yield text, weight
            if ordinary:
                yield f"{text}, in an ordinary call", weight
                if len(shape) == HEADS and shape[-1] >= WIDE_HEAD:
                    yield f"{text}, {'few' if shape[-2] <= FEW_ROWS else 'many'} rows of heads", 2.0
                ranked = f"{text}, rank {len(shape)}"
                yield from ((f"{ranked} beside {option}", 0.5) for option in options)
                if not case.kwargs:
                    yield f"{ranked}, nothing named", 2.0
        if isinstance(tensor, TensorRecipe) and math.prod(shape) > 1:
            yield from _of_values(told, tensor, shape, around)
        mixed = tensor.dtype != case.dtype and floats(tensor.dtype) and floats(case.dtype)
        if mixed and not shape and number:
            yield f"{told} is one number of a wider format", 3.0
        if tensor.dtype != case.dtype:
            yield f"{told} is {tensor.dtype}, {'a number' if not shape else 'more'}", 2.0
    yield from _of_pairs(case, known, options)
    yield from plain_calls.conditions(case, known)
    yield from _of_cotangents(case, options if ordinary else [])
    first, *others = known or [None]
    for number, shape in enumerate(others, 1):
        if first is not None and shape is not None:
            related = _pattern(first, shape)
            pattern = f"tensors 0 and {number} of the pattern {related}"
            yield pattern, 1.5
            for n in (0, number) if set(related) - {"="} else ():
                for text, _ in _of_strides(f"tensor {n}", facts, case.tensors[n], known[n] or ()):
                    if "in the order" in text:
                        yield f"{plain_calls.CHANNELS} {pattern}, {text}", 1.0
    if known and ordinary:
        yield from _of_kernels(known)
        yield from _of_equal_windows(case, known, facts)
    yield from _of_numbers(case, first)
    yield from _of_results(case, first)
    yield from _of_lengths(case)


def _of_cotangents(case: Case, options: list[str]) -> Iterator[tuple[str, float]]:
    """In which layout the cotangent comes, alone and beside each option of an ordinary call."""
    if case.cotangent and case.cotangent_layout:
        told = f"the cotangent is {case.cotangent_layout}"
        yield told, 2.0
        yield from ((f"{told} beside {option}", 1.0) for option in options)


def _options(case: Case) -> Iterator[str]:
    """What the call asks for beside its tensors, each alone: a kernel and a fraction are told as
    such, flags and modes by value."""
    named = [(str(n), a) for n, a in enumerate(case.args)] + list(case.kwargs.items())
    for name, value in named:
        match value:
            case bool() | str() | None:
                yield f"{name} = {value}"
            case int() | float():
                if abs(value) > FAR_FROM_ZERO:
                    yield f"{name} is far from 0"
                yield f"{name} is {'zero' if not value else 'negative' if value < 0 else 'more'}"
            case list() | tuple() if not value:
                yield f"{name} is an empty list"
            case list() | tuple() if all(isinstance(v, int) for v in value):
                even = {v == value[0] for v in value} == {True}
                zero = "zeros" if not any(value) else "equal" if even else "unequal"
                yield f"{name} is {len(value)} {zero}"


def _of_pairs(
    case: Case, shapes: list[tuple[int, ...] | None], options: list[str]
) -> Iterator[tuple[str, float]]:
    """Operands that are equal, windows as large as the image, kernels of even size."""
    first, second = (*case.tensors[:2], None, None)[:2]
    shape = shapes[0] if shapes else None
    pair = [t.values for t in (first, second) if isinstance(t, TensorRecipe)]
    if pair == [values.DIVIDEND, values.DIVISOR]:
        yield "the one operand often divides the other", 3.0
        yield from ((f"the one often divides the other beside {option}", 2.0) for option in options)
    if isinstance(first, TensorRecipe) and first == second and shape is not None:
        yield f"two operands are equal, {'numbers' if not shape else 'tensors'}", 2.0
        if first.leaf and floats(first.dtype):
            yield f"two operands are equal and have gradients, {len(shape) > 0}", 2.0
    yield from _of_shared(case)
    if shape is None:
        return
    for number, other in enumerate(shapes[1:], 1):
        if shape and other and len(shape) == len(other) > 1 and other[-1] > shape[-1]:
            yield f"tensor {number} is wider than the first", 2.0
    for place, value in enumerate(case.args):
        whole = isinstance(value, list) and all(isinstance(item, int) for item in value)
        window = value if whole else []
        if window and max(window) > 1 and window == list(shape[1:][-len(window) :]):
            yield f"argument {place} is the whole image, of {len(shape)} dimensions", 2.0
    kernel = shapes[1] if len(shapes) > 1 else None
    if kernel is not None and len(shape) == len(kernel) > 2:
        even = [size % 2 == 0 for size in kernel[2:]]
        if any(even) and min(kernel) > 0:
            padding = case.kwargs.get("padding", 0)
            told = padding if isinstance(padding, str) else "some" if padding else "none"
            yield f"a kernel of even size, padding: {told}", 2.0


def _of_shared(case: Case) -> Iterator[tuple[str, float]]:
    """Operands that lie in the memory of another one, and how they are viewed."""
    recipes = case.tensors
    for position, tensor in enumerate(recipes):
        first = owner(recipes, position)
        if first is None or not isinstance(tensor, TensorRecipe):
            continue
        further = [step[0] for step in tensor.view[len(recipes[first].view) :]]
        told = f"tensor {position} lies in the memory of tensor {first}, {further or 'as it is'}"
        yield told, 3.0
        if recipes[first].leaf and floats(tensor.dtype):
            yield f"{told}, and has gradients", 2.0


def _of_kernels(shapes: list[tuple[int, ...] | None]) -> Iterator[tuple[str, float]]:
    """Images that are no toys beside each size of a kernel."""
    first, second = shapes[0], shapes[1] if len(shapes) > 1 else None
    if first is None or second is None or not len(first) == len(second) > 2:
        return
    if math.prod(second[2:]) > TAPS and math.prod(first):
        depthwise = second[1] == 1 < first[1]
        batched = "a batch" if first[0] > 1 else "an image"
        long = "long" if max(second[2:]) > TAPS else "wide and high"
        yield f"a {long} kernel beyond {TAPS}, {batched}, depthwise: {depthwise}", 3.0
    if len(first) != 4:
        return
    if first[1] >= CHANNELS and min(first[2:]) >= TILE:
        yield f"a kernel of {second[2]} x {second[3]} beside an image that is no toy", 2.0


def _of_equal_windows(
    case: Case, shapes: list[tuple[int, ...] | None], facts: Facts
) -> Iterator[tuple[str, float]]:
    """Sizes of results that divide those of an image, in the order in which it lies in memory."""
    first, size = shapes[0], case.args[1] if len(case.args) > 1 else None
    if not first or not isinstance(size, (list, tuple)) or not 0 < len(size) < len(first):
        return
    pairs = list(zip(first[-len(size) :], size, strict=True))
    whole = all(isinstance(of, int) and of > 0 and not length % of for length, of in pairs)
    if whole and "adaptive" in case.operator:
        lies = [
            text for text, _ in _of_strides("it", facts, case.tensors[0], first) if "order" in text
        ]
        for options in ("", *(f" beside {option}" for option in _options(case))):
            yield f"windows of equal size, {lies[:1] or 'as it is'}{options}", 2.0


def _of_sizes(told: str, shape: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    yield f"{told} of rank {min(len(shape), LARGEST_RANK)}", 1.5
    if not math.prod(shape):
        # Of nothing a sum is 0, a product 1, a mean NaN, and a maximum an error.
        yield from (
            (f"{told} of rank {len(shape)} is empty from the end {dim}", 2.0)
            for dim, size in enumerate(reversed(shape[-MOST_DIMS:]), 1)
            if not size
        )
        return
    if len(shape) > BEHIND and math.prod(shape[BEHIND:]) == 1 < max(shape):
        yield f"{told} of rank {len(shape)} has single elements behind its fourth dimension", 3.0
    if len(shape) == 2 and max(shape) > 2 and min(shape) == 1:
        yield f"{told} is a {'column' if shape[1] == 1 else 'row'}", 1.0
    if len(shape) > 2 and shape[-1] == shape[1] > 1:
        yield f"{told} has as many channels as columns", 1.5
    if len(shape) > 2 and shape[1] == 1 < max(shape):
        yield f"{told} has one channel", 1.5
    if len(shape) > 2 and math.prod(shape[2:]) == 1:
        yield f"{told} is an image of one pixel, rank {len(shape)}", 1.5
    yield from (
        (f"{told} has more than {n} channels, rank {len(shape)}", 1.0)
        for n in FEW_CHANNELS
        if len(shape) > 2 and shape[1] > n
    )
    fits = []
    for dim, size in enumerate(reversed(shape[-MOST_DIMS:]), 1):
        beyond = max((n for n in THRESHOLDS if size > n), default=0)
        for threshold in THRESHOLDS:
            if size > threshold:
                yield f"{told} beyond {threshold} from the end {dim}", 1.0
        if size % TILE == 1 and size > 1:
            yield f"{told} has one over {TILE} from the end {dim}", 1.0
        if size & (size - 1) and size > 2:
            yield f"{told} fills no power of two from the end {dim}", 0.5
        fits.append("whole" if size % TILE == 0 else "over" if beyond else "less")
    yield f"{told} of {' x '.join(fits)} tiles", 1.0
    if len(shape) > 2 and shape[-2] > TILE and math.prod(shape[:-2]) > 1:
        yield f"{told} is a batch of more than {TILE} rows", 1.0
    for dim, threshold in itertools.product((-1, -2), (128, 256, 512)):
        if len(shape) > 2 and shape[dim] > threshold and math.prod(shape[:-2]) > 1:
            yield f"{told} is a batch beyond {threshold} from the end {-dim}", 1.0


def _of_strides(
    told: str, facts: Facts, tensor: Any, shape: tuple[int, ...]
) -> Iterator[tuple[str, float]]:
    strides, offset = facts.described("stride", tensor), facts.described("offset", tensor)
    if strides is UNKNOWN or not math.prod(shape):
        return
    used = [(s, n) for s, n in zip(strides, shape, strict=True) if n > 1]
    if not shape and offset:
        yield f"{told} is one element behind others", 2.0
    if offset and offset % 2:
        yield f"{told} begins at an odd element", 1.0
    if len(used) < 1 or math.prod(shape) == 1:
        return
    order = sorted(range(len(used)), key=lambda d: -used[d][0])[-ORDERED:]
    gaps = _has_gaps(used)
    if order != sorted(order) or gaps:
        yield f"{told} in the order {order}{' with gaps' if gaps else ''}", 1.5
    if any(s == 0 for s, _ in used):
        zero = [len(used) - d for d, (s, _) in enumerate(used) if s == 0]
        yield f"{told} is expanded from the end {zero}", 1.5


def _has_gaps(used: list[tuple[int, int]]) -> bool:
    expected = 1
    for stride, size in sorted(used):
        if stride != expected:
            return True
        expected *= size
    return False


def _of_values(
    told: str, tensor: TensorRecipe, shape: tuple[int, ...], around: tuple[Any, ...]
) -> Iterator[tuple[str, float]]:
    kind, *parameters = tensor.values
    if tensor.values == around:
        yield f"{told} lies around the numbers of the call", 3.0
    if kind == "tokens" and parameters[0] >= 0.0 and "0" in parameters:
        yield f"{told} of positive numbers and zeros", 2.0
    if kind == "powers":
        yield f"{told} of numbers beside powers of two", 2.0
    if kind in ("constant", "leading"):
        where = "everywhere" if kind == "constant" else "in its first row"
        held = f"{told} is {parameters[-1] if kind == 'leading' else parameters[0]} {where}"
        yield held, 2.0
        for length in LONG_CONSTANTS:
            if max(shape) > length:
                yield f"{held}, beyond {length}", 1.0
            if shape[-1:] > (length,):
                yield f"{held}, a row beyond {length}", 1.0
            if len(shape) > 1 and shape[-2] > length:
                yield f"{held}, rows beyond {length}", 1.0
    if kind == "uniform" and len(parameters) == 2:
        low, high = parameters
        if high <= 0 or low > 0:
            yield f"{told} of {'negative' if high <= 0 else 'positive'} numbers", 2.0
    if kind == "integers":
        reach = max(abs(parameters[0]), abs(parameters[1]))
        yield from ((f"{told} of integers beyond {n}", 1.5) for n in INTEGERS if reach > n)
    if kind == "wide" and max(map(abs, parameters[:2])) > FAR:
        yield f"{told} of numbers far from 1", 1.5
    if kind == "wide" and parameters[0] > 0:
        yield f"{told} of numbers whose squares overflow", 2.0
    if kind == "wide" and parameters[1] < 0:
        yield f"{told} of numbers whose squares vanish", 2.0
    if kind == "normal" and parameters[-1] >= 64:
        yield f"{told} of numbers that are far apart", 2.0
    last = shape[-1] if shape else 1
    signed = (
        kind == "uniform" and len(parameters) == 2 and (parameters[1] <= 0 or parameters[0] > 0)
    )
    if signed and last & (last - 1):  # what pads it may win, or count
        sign = "negative" if parameters[1] <= 0 else "positive"
        yield f"{told} of {sign} numbers fills no power of two, rank {len(shape)}", 1.0
    nan = [position for position, token in tensor.special if token == "nan"]
    if not nan or not floats(tensor.dtype):
        return
    for length in LONG_WITH_NAN:
        if max(shape) > length:
            yield f"{told} has NaN beside more than {length}", 1.0
    row = shape[-1] if len(shape) > 1 else 0
    if row and set(range(row)) <= set(nan) and not tensor.view:
        yield f"{told} has a row of NaN", 2.0
    elif not tensor.view:
        last = math.prod(tensor.base) - 1
        place = "beginning" if nan[0] == 0 else "end" if nan[0] == last else "middle"
        yield f"{told} has NaN at its {place}", 1.0


def _pattern(first: tuple[int, ...], other: tuple[int, ...]) -> str:
    """How two shapes relate, dimension by dimension from the end: equal, one, other, missing."""
    pairs = itertools.zip_longest(reversed(first), reversed(other))
    return "".join(
        "<" if a is None else ">" if b is None else "=" if a == b else
        "1" if b == 1 else "i" if a == 1 else "x"
        for a, b in itertools.islice(pairs, 5)
    )  # fmt: skip


def _of_numbers(case: Case, shape: tuple[int, ...] | None) -> Iterator[tuple[str, float]]:
    """The kinds of numbers beside the dtype, and dimensions by their place."""
    named = [(str(n), a) for n, a in enumerate(case.args)] + list(case.kwargs.items())
    whole = not floats(case.dtype)
    infinite = {name: v for name, v in named if isinstance(v, float) and math.isinf(v)}
    if len(infinite) > 1:
        yield f"infinite: {infinite}", 3.0
    for name, value in named:
        if isinstance(value, bool):
            continue
        if isinstance(value, (int, float)) and math.isfinite(value) and value:
            if abs(value) >= LARGE_NUMBER:
                yield f"{name} is a large number", 2.0
            if abs(value) < SMALL_NUMBER:
                yield f"{name} is a small number", 2.0
        if isinstance(value, float):
            yield f"{name} is a fraction beside {'whole numbers' if whole else 'floats'}", 2.0
            if value in (0.0, 1.0, -1.0):
                yield f"{name} is {value!r}", 1.0
        elif isinstance(value, int) and not whole:
            yield f"{name} is a whole number beside floats", 0.5
            if name == "1" and value in (0, 1, -1):
                yield f"{name} is the whole number {value}", 1.0
    rank = len(shape) if shape is not None else 0
    if not any(name.startswith("dim") or type(value) is int for name, value in named[1:]):
        yield f"no dimension is named of {min(rank, LARGEST_RANK)}", 1.0
    for name, value in named:
        dims = value if isinstance(value, (tuple, list)) else (value,)
        if not rank or not dims or not name.startswith("dim"):
            continue
        if all(type(d) is int and -rank <= d < rank for d in dims):
            places = sorted({_place(d % rank, rank) for d in dims})
            yield f"{name}: {len(dims)} of {min(rank, LARGEST_RANK)}, {' and '.join(places)}", 1.0


def _of_results(case: Case, shape: tuple[int, ...] | None) -> Iterator[tuple[str, float]]:
    """Whether what is asked for is smaller or larger than the first tensor, beside each option."""
    options = [f"{k} = {v}" for k, v in case.kwargs.items() if isinstance(v, (str, bool))]
    for name in ("size", "output_size", "scale_factor"):
        value = case.kwargs.get(name)
        if value is None or shape is None:
            continue
        wanted = list(value) if isinstance(value, (tuple, list)) else [value]
        now = shape[-len(wanted) :] if name != "scale_factor" else [1] * len(wanted)
        if not all(isinstance(w, (int, float)) for w in wanted) or len(now) != len(wanted):
            continue
        signs = {(w > n) - (w < n) for w, n in zip(wanted, now, strict=True)}
        told = "other" if len(signs) > 1 else ("same", "larger", "smaller")[signs.pop()]
        if min(w / max(n, 1) for w, n in zip(wanted, now, strict=True)) > MANY_TIMES:
            told = "many times larger"
        yield f"a result of {told} size", 1.5
        yield from ((f"a result of {told} size, {option}", 1.0) for option in options)
        if len(shape) > 2 and math.prod(shape[2:]) == 1:
            yield from ((f"a result of {told} size than a pixel, {o}", 1.0) for o in options)


def _of_lengths(case: Case) -> Iterator[tuple[str, float]]:
    """Lists of lengths of which one is below that of the next list."""
    lists = [a for a in case.args if isinstance(a, tuple) and all(type(n) is int for n in a)]
    for before, after in itertools.pairwise(lists):
        if len(before) == len(after) and any(a < b for a, b in zip(before, after, strict=True)):
            yield "a length below that of the next list", 2.0
            for name, value in case.kwargs.items():
                yield f"a length below that of the next list, {name} = {value}", 1.5


def _place(dim: int, rank: int) -> str:
    return "last" if dim == rank - 1 else "first" if dim == 0 else "inner"
