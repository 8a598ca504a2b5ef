"""Facts: the summation order of sums, matrix products and convolutions of one moderate size, and
where a bias is added."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from ... import operators
from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...generate.materialize import prepare
from ..fingerprint.facts import Fact, unknown
from ..fingerprint.query import Ask
from .notation import text
from .operator_sums import layout_of
from .order_assignment import LEAST_OUTPUTS
from .orders import Order, Orders, orders_of
from .sums_in_operators import Question

# By short name: operator, shapes of its tensors, further arguments.
FORMS: dict[str, tuple[str, tuple[tuple[int, ...], ...], tuple[int, ...]]] = {
    "sum": ("sum", ((32, 600),), (-1,)),
    "mean": ("mean", ((32, 300),), (-1,)),
    "matmul": ("matmul", ((16, 400), (400, 32)), ()),
    "bmm": ("bmm", ((2, 8, 256), (2, 256, 16)), ()),
    "linear": ("nn.functional.linear", ((16, 400), (32, 400), (32,)), ()),
    "conv2d": ("nn.functional.conv2d", ((2, 8, 8, 8), (16, 8, 3, 3)), ()),
}
_WINDOW = 1 << 22  # bitstream length per tensor
_SHORTER = frozenset({"bfloat16"})  # many calls per form, since it counts to 256 only: fewer forms


def facts(ask: Ask, dtype: str) -> Iterator[Fact]:
    """One fact per form, for a dtype in which terms can be counted."""
    for form in FORMS:
        if dtype not in _SHORTER or form in ("sum", "linear"):
            yield of_form(ask, form, dtype)


def of_form(ask: Ask, form: str, dtype: str) -> Fact:
    """The order of one form; inconclusive unless the replay reproduces every output bit for bit."""
    name, shapes, more = FORMS[form]
    question = f"{form}/{dtype}/order"
    refused = ask.refusal(name, dtype)
    if refused:
        return unknown(question, refused)
    windows = range(1, len(shapes) + 1)
    tensors = tuple(
        TensorRecipe(s, dtype, ("uniform", -1.0, 1.0), _WINDOW * w)
        for s, w in zip(shapes, windows, strict=True)
    )
    arguments = prepare(Case(name, dtype, (*tensors, *more))).build()
    args = tuple(arguments.args)
    orders = orders_of(
        Question(ask.backend, operators.get(name), dtype, args, {}, layout_of(name, args, {}))
    )
    ask.calls += orders.calls
    return fact(question, orders, " × ".join("×".join(map(str, shape)) for shape in shapes))


def fact(question: str, found: Orders, shapes: str) -> Fact:
    """The recovered orders as a fact; ``shapes`` describes the arguments."""
    if found.inconclusive:
        return unknown(question, found.inconclusive, shapes)
    if not found.exact or found.untested or found.outputs < LEAST_OUTPUTS:
        best = (
            _describe(found.orders[0])
            if found.orders
            else text(found.apart.tree)
            if found.apart
            else "what was found"
        )
        return unknown(
            question,
            (
                f"{best} gives {found.equal} of {found.outputs} outputs only, so it is not (all "
                "of) the order"
            ),
            shapes,
        )
    descriptions = [_describe(order) for order in found.orders]
    answer = (
        descriptions[0]
        if len(descriptions) == 1
        else "; ".join(
            f"at {o.outputs} outputs {t}" for o, t in zip(found.orders, descriptions, strict=True)
        )
    )
    evidence = (
        f"{shapes}: {found.equal} of {found.outputs} outputs replayed bit for bit, "
        f"{found.calls} calls"
    )
    return Fact(
        question,
        answer,
        evidence,
        details=MappingProxyType({"hash": " ".join(o.tree.hash for o in found.orders)}),
    )


def _describe(order: Order) -> str:
    return text(order.tree) + (f", {order.manner}" if order.manner.told else "")
