"""Calls with one tensor in two places: ``x @ x.T``, ``x * x``, an attention of a sequence to
itself.

Kernels may know that both operands are the same memory, and a gradient is the sum of what comes
through either of them.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.recipe import Arg, TensorRecipe
from ..operators.call_forms import empty
from ..operators.declare import Call, Drawing, Operator

ONE_IN = 12  # calls of an operator that can be called so
# The places of the operands that may be the same.
PLACES = {"where": (1, 2), "addcmul": (1, 2), "addcdiv": (1, 2)} | dict.fromkeys(
    (
        "add", "sub", "mul", "div", "true_divide", "remainder", "fmod", "maximum", "minimum",
        "fmax", "fmin", "hypot", "atan2", "copysign", "logaddexp", "xlogy", "lerp",
        "eq", "ne", "lt", "le", "gt", "ge", "isclose",
        "dot", "vdot", "outer", "kron", "cross", "linalg.cross", "linalg.vecdot",
        "nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss",
        "nn.functional.huber_loss", "nn.functional.cosine_similarity",
        "nn.functional.pairwise_distance",
    ),
    (0, 1),
)  # fmt: skip
PRODUCTS = frozenset({"mm", "matmul", "bmm", "nn.functional.linear", "inner"})
LISTS = frozenset({"cat", "stack", "hstack", "vstack"})
ATTENTION = "nn.functional.scaled_dot_product_attention"
METHOD = ".method"


def with_shared_operand(d: Drawing, operator: Operator, call: Call) -> Call:
    """The call, one time in twelve with an operand in the memory of an earlier one. Shrinks towards
    operands of their own."""
    name = operator.name.removesuffix(METHOD)
    places = PLACES.get(name, (0, 1))
    known = name in PLACES or name in PRODUCTS or name in LISTS or name == ATTENTION
    if not known or d.integer(0, ONE_IN - 1) != ONE_IN - 1:
        return call
    args = call.args
    if name in LISTS:
        return _replaced(call, 0, _list(args[0]))
    first, second = (args[place] if place < len(args) else None for place in places)
    if not isinstance(first, TensorRecipe) or not isinstance(second, TensorRecipe):
        return call
    if first.dtype != second.dtype:
        return call
    if name == ATTENTION:
        return call if call.kwargs.get("attn_mask") is not None else _to_itself(call, first)
    if name in PLACES:
        return _replaced(call, places[1], first.again())
    return _product(d, name, call, first)


def _product(d: Drawing, name: str, call: Call, first: TensorRecipe) -> Call:
    """A · Aᵀ, or Aᵀ · A: either factor may be the transposed one."""
    rank = empty(first).ndim
    multiplies_rows = name in ("nn.functional.linear", "inner")  # by rows: of itself then
    if rank < 2 or len(call.args) > 2 or (rank > 2 and multiplies_rows):
        return call
    transposed = ("transpose", rank - 2, rank - 1)
    if d.flag():
        first = replace(first, view=(*first.view, transposed))
        call = _replaced(call, 0, first)
    return _replaced(call, 1, first.again() if multiplies_rows else first.again(transposed))


def _to_itself(call: Call, query: TensorRecipe) -> Call:
    return replace(call, args=(query, query.again(), query.again(), *call.args[3:]))


def _list(tensors: Arg) -> Arg:
    """The second of several tensors in the memory of the first."""
    if not isinstance(tensors, (list, tuple)) or len(tensors) < 2:
        return tensors
    first, second = tensors[:2]
    if not isinstance(first, TensorRecipe) or not isinstance(second, TensorRecipe):
        return tensors
    if first.dtype != second.dtype:
        return tensors
    return type(tensors)([first, first.again(), *tensors[2:]])


def _replaced(call: Call, place: int, arg: Arg) -> Call:
    return replace(call, args=(*call.args[:place], arg, *call.args[place + 1 :]))
