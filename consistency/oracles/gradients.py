"""Oracles of gradients, from the definition: against the cotangents that a case draws, for every tensor that has a gradient.

Three kinds: functions of corresponding elements, by central differences of their oracles; products, which are einsums and so are
their gradients, in double-double; and what only moves numbers, where a gradient is the sum of the cotangents of all places that a
number went to, correctly rounded. Kinks, infinities and domain boundaries are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..backends.base import cotangent, flatten
from ..backends.numpy_backend import Numpy
from ..errors import Unsupported
from ..materialise import Arguments
from ..operators.declare import Operator
from . import _numbers
from .answer import Answer, Unsure
from .double_double import as_dd, within_range
from .elementwise import FUNCTIONS, sample
from .sums import SUMS, einsum

# A step of 2⁻¹²⁰·|x| leaves a truncation error of 2⁻²⁴⁰·|x³f'''/6f'|. Where a difference keeps fewer than 110 bits, more are
# taken; where all of 1500 and more are equal, the function is constant, or its slope is below every float64.
STEP, BITS, WANTED, MOST_BITS = -120, 480, 110, 1500
AT_ZERO = -1200  # the step there, so that x³ has no slope that float64 holds
MOVING = frozenset({"movement", "indexing"})
# Sums of numbers are no labels any more.
_ADDING = frozenset({"scatter_reduce", "index_reduce", "scatter_add", "index_add", "index_put", "put", "combinations"})
_NUMPY = Numpy()


def knows(operator: Operator) -> bool:
    if not operator.differentiable or operator.mutates:
        return False
    return operator.name in EINSUMS or operator.name in ("sum", "mean") or _moves(operator) or _pointwise(operator)


def _pointwise(operator: Operator) -> bool:
    """Without acosh: next to 1 its gradient is as uncertain as x² − 1, and S, from inputs 2⁻²⁸ smaller, does not say so.

    And without softshrink, which may have λ = 0, a kink in name only.
    """
    return operator.name in FUNCTIONS.keys() - {"acosh", "nn.functional.softshrink"} and _numbers.available()


def _moves(operator: Operator) -> bool:
    return operator.family in MOVING and operator.name not in _ADDING


def evaluate(operator: Operator, arguments: Arguments, stop: int, most: int | None = None) -> list[Answer]:
    """One answer per tensor of ``arguments`` (float64) that requires a gradient; at most ``most`` elements of each are looked at.

    ``stop`` is the end of the cotangents' window on the tape, see :class:`~consistency.model.Case`. Raises Unsure.
    """
    if any(item.is_complex() for item in arguments.tensors):
        raise Unsure("complex numbers")
    with np.errstate(all="ignore"):
        if _moves(operator):
            return _moved(operator, arguments, stop)
        if operator.name in ("sum", "mean"):
            return _spread(operator.name, arguments, stop)
        if operator.name in EINSUMS:
            return _products(operator.name, arguments, stop)
        return _differences(operator.name, arguments, stop, most)


def _drawn(shape: Sequence[int], stop: int, arguments: Arguments) -> Any:
    return cotangent(torch.empty(tuple(shape), dtype=torch.float64), stop, arguments).numpy()


# --- functions of corresponding elements -----------------------------------------------------------------------------------


def _differences(name: str, arguments: Arguments, stop: int, most: int | None) -> list[Answer]:
    tensors = [item for item in (*arguments.args, *arguments.kwargs.values()) if isinstance(item, torch.Tensor)]
    if len(tensors) != len(arguments.tensors):
        raise Unsure("tensors in lists")
    operands = [tensor.detach().numpy() for tensor in tensors]
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    weights = _drawn(shape, stop, arguments).reshape(-1)
    columns = [np.broadcast_to(operand, shape).reshape(-1) for operand in operands]
    answers = []
    for position, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            continue
        owner = np.broadcast_to(np.arange(tensor.numel()).reshape(tensor.shape), shape).reshape(-1)
        order = np.argsort(owner, kind="stable")
        starts = np.searchsorted(owner[order], np.arange(tensor.numel() + 1))
        found: list[tuple[int, float, float]] = []
        # Broadcasting makes one element a sum of many: then fewer elements.
        few = None if most is None else max(most * tensor.numel() // max(owner.size, 1), 1)
        for element in sample(tensor.numel(), few).tolist():
            places = order[starts[element] : starts[element + 1]].tolist()
            slopes = [_slope(name, arguments, position, [column[place].item() for column in columns]) for place in places]
            known = [slope for slope in slopes if slope is not None]
            if len(known) == len(slopes):
                total = sum((w * s for w, s in zip(weights[places].tolist(), known, strict=True)), _numbers.context().mpf(0))
                found.append((element, *_numbers.split(total)))
        made = np.array([row[1:] for row in found], dtype=np.float64).reshape(-1, 2)
        answers.append(Answer(tuple(tensor.shape), made[:, 0], made[:, 1], np.array([row[0] for row in found], dtype=np.int64)))
    return answers


def _slope(name: str, arguments: Arguments, position: int, values: list[float]) -> Any:
    """∂f/∂x of argument ``position`` at one element, or None where there is no derivative or nothing is known."""
    m = _numbers.context()
    if not all(map(math.isfinite, values)):
        return None
    x, bits = m.mpf(values[position]), BITS
    most = MOST_BITS + sum(abs(m.mag(value)) for value in values if value) - (0 if x else AT_ZERO)
    step = m.ldexp(abs(x), STEP) if x else m.ldexp(m.mpf(1), AT_ZERO)
    bits += abs(m.mag(x)) if x else 0
    while bits <= most:
        with m.workprec(bits):
            try:
                low, middle, high = (_at(m, name, arguments, position, values, x + k * step) for k in (-1, 0, 1))
                left, right = middle - low, high - middle
            except (ValueError, ZeroDivisionError, OverflowError, TypeError, m.NoConvergence):
                return None
            if any(hasattr(item, "_mpc_") or not m.isfinite(item) for item in (left, right)):
                return None
            if not left and not right and bits == most:
                return left
            lost = max(m.mag(middle) - m.mag(high - low), 0) if high != low else most
            if bits - lost >= WANTED:
                kink = abs(right - left) > m.ldexp(max(abs(left), abs(right)), -60)
                return None if kink else (high - low) / (2 * step)
            bits = max(min(lost + WANTED, most), bits + 1) if bits < most else most + 1
    return None


def _at(m: Any, name: str, arguments: Arguments, position: int, values: list[float], x: Any) -> Any:
    numbers = iter([x if i == position else m.mpf(value) for i, value in enumerate(values)])
    given = [next(numbers) if isinstance(item, torch.Tensor) else item for item in arguments.args]
    named = {key: next(numbers) if isinstance(item, torch.Tensor) else item for key, item in arguments.kwargs.items()}
    return FUNCTIONS[name](m, *given, **named)


# --- products -----------------------------------------------------------------------------------------------------------------


def _of_ranks(a: Any, b: Any) -> str:
    """torch.matmul's equation, without batches that broadcast."""
    batch = "uvwxyz"[: max(a.ndim, b.ndim) - 2] if max(a.ndim, b.ndim) > 2 else ""
    left, right = ("k" if a.ndim == 1 else "ik"), ("k" if b.ndim == 1 else "kj")
    if batch and a.ndim > 2 and b.ndim > 2 and a.shape[:-2] != b.shape[:-2]:
        raise Unsure("batches that broadcast")
    left, right = (batch if a.ndim > 2 else "") + left, (batch if b.ndim > 2 else "") + right
    return f"{left},{right}->{batch}{'i' * (a.ndim > 1)}{'j' * (b.ndim > 1)}"


def _given(equation: str, *operands: Any) -> str:
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "..." in equation or "->" not in equation or any(len(set(term)) < len(term) for term in terms):
        raise Unsure("an ellipsis, no arrow, or a diagonal")
    return equation.replace(" ", "")


def _linear(x: Any, weight: Any, bias: Any = None) -> str:
    lead = "abcdef"[: x.ndim - 1]
    return f"{lead}k,ok->{lead}o" if bias is None else f"{lead}k,ok->{lead}o+o"


EINSUMS: Mapping[str, Callable[..., str]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot"), _of_ranks),
    "outer": lambda a, b: "i,j->ij",
    "einsum": _given,
    "nn.functional.linear": _linear,
    "nn.functional.bilinear": lambda x, y, w, bias=None: "".join(
        ["{0}i,{0}j,oij->{0}o".format("abcd"[: x.ndim - 1]), "+o" if bias is not None else ""]
    ),
}


def _products(name: str, arguments: Arguments, stop: int) -> list[Answer]:
    """Σ of products: by one factor it is the sum, over all other letters, of the cotangents times the other factors."""
    operands = [t.detach().numpy() for t in arguments.tensors]
    if not all(operand.dtype == np.float64 for operand in operands) or not within_range(*operands):
        raise Unsure("integers, or numbers outside of 2⁻⁴⁰⁰ … 2⁴⁰⁰")
    if any(not np.isfinite(operand).all() for operand in operands):
        raise Unsure("infinities")
    named = list(operands) if name != "einsum" else [arguments.args[0], *operands]
    if name != "einsum" and any(not isinstance(item, torch.Tensor) for item in (*arguments.args, *arguments.kwargs.values())):
        raise Unsure("options")
    equation, _, bias = EINSUMS[name](*named).partition("+")
    terms, result = equation.partition("->")[0].split(","), equation.partition("->")[2]
    sizes = {
        letter: size
        for term, operand in zip(terms, operands, strict=False)
        for letter, size in zip(term, operand.shape, strict=True)
    }
    weights = _drawn([sizes[letter] for letter in result], stop, arguments)
    answers = []
    for position, tensor in enumerate(arguments.tensors):
        if not tensor.requires_grad:
            continue
        if position >= len(terms):  # what is added once, and broadcast
            made = einsum(f"{result}->{bias}", weights)
        else:
            others = [(term, operand) for i, (term, operand) in enumerate(zip(terms, operands, strict=False)) if i != position]
            present = set("".join(term for term, _ in others) + result)
            kept = "".join(letter for letter in terms[position] if letter in present)
            letters = ",".join([result, *(term for term, _ in others)])
            made = einsum(f"{letters}->{kept}", weights, *(operand for _, operand in others))
            shape = [sizes[letter] if letter in present else 1 for letter in terms[position]]
            made = made.reshape(*shape) + as_dd(np.zeros(tensor.shape))
        answers.append(Answer(tuple(tensor.shape), made.high.reshape(-1), made.low.reshape(-1)))
    return answers


def _spread(name: str, arguments: Arguments, stop: int) -> list[Answer]:
    """Of a sum every term has the sum's cotangent, of a mean its share."""
    x = arguments.args[0].detach().numpy()
    shape = SUMS[name](np.zeros(x.shape), *arguments.args[1:], **arguments.kwargs).shape
    whole = SUMS[name](np.zeros(x.shape), *arguments.args[1:], **{**arguments.kwargs, "keepdim": True}).shape
    weights = as_dd(_drawn(shape, stop, arguments).reshape(whole))
    shares = weights / (x.size // max(math.prod(shape), 1)) if name == "mean" else weights
    made = shares + np.zeros(x.shape)
    return [Answer(x.shape, made.high.reshape(-1), made.low.reshape(-1))]


# --- movement -----------------------------------------------------------------------------------------------------------------


def _moved(operator: Operator, arguments: Arguments, stop: int) -> list[Answer]:
    """Where numbers go is seen by moving labels; what grows by as much as all labels is one, anything else is a constant."""
    leaves = [tensor for tensor in arguments.tensors if tensor.requires_grad]
    ends = np.cumsum([leaf.numel() for leaf in leaves])
    count = int(ends[-1]) if leaves else 0
    first, second = (_labelled(operator, arguments, leaves, ends, offset) for offset in (1, 1 + count))
    gathered: list[list[float]] = [[] for _ in range(count)]
    for labels, shifted in zip(first, second, strict=True):
        weights = _drawn(labels.shape, stop, arguments).reshape(-1).tolist()
        moved = ((shifted - labels) == count).reshape(-1).tolist()
        for label, weight, is_label in zip(labels.reshape(-1).tolist(), weights, moved, strict=True):
            if is_label:
                gathered[int(label) - 1].append(weight)
    high = np.array([math.fsum(weights) for weights in gathered], dtype=np.float64)
    tail = np.array([math.fsum([*weights, -h]) for weights, h in zip(gathered, high.tolist(), strict=True)], dtype=np.float64)
    starts = [int(end) - leaf.numel() for end, leaf in zip(ends, leaves, strict=True)]
    return [
        Answer(tuple(leaf.shape), high[start : start + leaf.numel()], tail[start : start + leaf.numel()])
        for leaf, start in zip(leaves, starts, strict=True)
    ]


def _labelled(operator: Operator, arguments: Arguments, leaves: Sequence[torch.Tensor], ends: Any, offset: int) -> list[Any]:
    made = {
        id(leaf): torch.arange(int(end) - leaf.numel(), int(end), dtype=torch.float64).add(offset).reshape(leaf.shape)
        for leaf, end in zip(leaves, ends, strict=True)
    }

    def replaced(item: Any) -> Any:
        if isinstance(item, (tuple, list)):
            return type(item)(replaced(inner) for inner in item)
        return made.get(id(item), item)

    args, kwargs = [replaced(item) for item in arguments.args], {key: replaced(item) for key, item in arguments.kwargs.items()}
    try:
        found = list(flatten(_NUMPY.call(operator, args, kwargs)))
    except (Unsupported, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise Unsure(str(error)) from None
    if not all(isinstance(item, torch.Tensor) and item.dtype == torch.float64 for item in found):
        raise Unsure("results that are no floating tensors")
    return [item.numpy() for item in found]
