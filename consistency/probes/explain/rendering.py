"""An account in plain words."""

from __future__ import annotations

import math
from typing import Any

from ...core.detail import BeyondStatistics
from ...core.text import format_factor, format_percent
from ...diagnose.precision_scaling import power
from ...judge.judge import Judgment
from ..summation.notation import text
from ..summation.orders import Order, Orders
from ..summation.tree_chart import tree_chart
from ..summation.trees import Tree
from .difference import Account

BOTH = "Both"
DRAWN = 3  # orders of a side, the most frequent ones


def lines(account: Account) -> list[str]:
    """What was found, the sentence that counts first."""
    return [
        _difference(account),
        *_precision(account),
        *_orders(account),
        *_properties(account),
        *_threshold(account),
    ]


def _difference(account: Account) -> str:
    a, b = (side.name for side in account.sides)
    if not account.differing:
        return f"{a} and {b} give the same bits: all {account.elements:,} elements."
    many = account.elements > 200
    share = (
        f"{100.0 * account.differing / account.elements:.0f}% of the"
        if many
        else f"{account.differing} of {account.elements}"
    )
    return f"{share} elements differ, by at most {account.apart:.2g}; {_judged(account)}."


def _judged(account: Account) -> str:
    """``each is at most 0.01 × budget from float64: rounding``, or both apart where their verdicts
    are not the same."""

    def times(rho: float) -> str:
        return (
            f"at most {format_factor(rho)} × budget from float64"
            if math.isfinite(rho)
            else "beyond every budget"
        )

    rhos = [found.metrics.get("rho_max", 0.0) for found in account.judged]
    if account.rounding:
        return f"each is {times(max(rhos))}: rounding"
    told = zip(account.sides, account.judged, rhos, strict=True)
    sentences = [
        f"{s.name} is {times(rho)}: rounding" if f.verdict.passes else f"{s.name}: {_objection(f)}"
        for s, f, rho in told
    ]
    return "; ".join(sentences)


def _objection(found: Judgment) -> str:
    """The verdict and its reason. Where every element is within budget a number in front of it
    would read as if all were well."""
    detail = found.detail
    if isinstance(detail, BeyondStatistics) and found.metrics.get("rho_max", 0.0) <= 1.0:
        return f"{found.verdict}: each element by itself might be rounding, but {detail.statistic}"
    return f"{found.verdict}: {found.explanation}"


def _precision(account: Account) -> list[str]:
    if math.isnan(account.ratio) or not account.differing:
        return []
    if math.isinf(account.ratio):
        return ["In float64 they give the same bits."]
    if account.case.dtype != "float32":
        return [f"In float64 the difference is smaller by {power(account.ratio)}."]
    sound = (
        "✓ as rounding shrinks" if account.ratio > 2.0**24 else "✗ rounding shrinks by about 2^29"
    )
    return [f"In float64 the difference is smaller by {power(account.ratio)}  {sound}"]


def _orders(account: Account) -> list[str]:
    a, b = account.orders
    total = account.elements
    if account.explained:
        what = "Fully explained" if account.differing else "Found"
        head = (
            f"{what}: {account.replayed:,} of {total:,} outputs replayed bit for bit, on both "
            f"sides."
        )
        return [head, *_told(account)]
    missing = [
        f"{side.name}: {_missing(orders)}"
        for side, orders in zip(account.sides, account.orders, strict=True)
        if _missing(orders)
    ]
    if len(missing) == 2 and _missing(a) == _missing(b):
        missing = [f"{BOTH}: {_missing(a)}"]
    known = [
        line
        for side, orders in zip(account.sides, account.orders, strict=True)
        for line in _each(side.name, orders)
    ]
    if a.equal or b.equal:
        part = "Explained in part" if account.differing else "Found in part"
        head = (
            f"{part}: {account.replayed:,} of {total:,} outputs replayed bit for bit on both "
            f"sides. What remains:"
        )
    else:
        head = (
            "Not explained by the order of summation:"
            if account.differing
            else "In which order they sum is not known:"
        )
    return [head, *(f"  {line}" for line in missing), *known]


def _missing(orders: Orders) -> str:
    if orders.inconclusive:
        return f"inconclusive: {orders.inconclusive}"
    if orders.apart is not None:
        apart = orders.apart
        place = f"[{', '.join(map(str, apart.index))}]" if orders.outputs > 1 else "the output"
        found = "what was found" if len(orders.orders) > 1 else text(apart.tree)
        gives = (
            f", {'the first order' if len(orders.orders) > 1 else 'that'} gives {apart.given!r}"
            * (apart.given != apart.came)
        )
        rest = "; ".join(("", f"{orders.untested:,} were not replayed")) if orders.untested else ""
        return (
            f"{found}, with and without FMA, does not give {apart.outputs:,} of "
            f"{orders.outputs:,} outputs; "
            f"{place} is {apart.came!r}{gives or ' (with other numbers they differ)'}{rest}"
        )
    if not all(order.confirmed for order in orders.orders):
        return "the order that was found gives these numbers, but not others of this size"
    return f"{orders.untested:,} outputs were not replayed" if orders.untested else ""


def _told(account: Account) -> list[str]:
    """Both orders: what they have in common once, then what differs."""
    (a, b), (one, other) = (side.name for side in account.sides), account.orders
    if len(one.orders) > 1 and _each(BOTH, one) == _each(BOTH, other):
        return _each(BOTH, one)
    if len(one.orders) == len(other.orders) == 1:
        left, right = one.orders[0], other.orders[0]
        plain = [without_bias(order.tree) for order in (left, right)]
        n = left.tree.terms
        if left.tree.hash == right.tree.hash and left.manner == right.manner:
            return [f"  Both sum their {n:,} terms alike{_with(left)}: {text(left.tree)}."]
        if (
            plain[0].hash == plain[1].hash
            and left.manner == right.manner
            and left.tree.added
            and right.tree.added
        ):
            return [
                f"  Both sum {n:,} products in the same order{_with(left)}: {text(plain[0])}.",
                f"  {a} adds the bias {where_bias(left.tree)}; {b} {where_bias(right.tree)}.",
            ]
    return [
        line
        for side, orders in zip(account.sides, account.orders, strict=True)
        for line in _each(side.name, orders)
    ]


def _each(name: str, orders: Orders) -> list[str]:
    """``cpu sums …``, or a line for each order."""
    told = [f"{text(order.tree)}{_with(order)}." for order in orders.orders]
    if len(told) < 2:
        return [f"  {name} sums {words}" for words in told]
    return [
        f"  {name} sum{'s' * (name != BOTH)}",
        *(f"    {_at(order)}: {words}" for order, words in zip(orders.orders, told, strict=True)),
    ]


def _at(order: Order) -> str:
    return f"at {order.outputs:,} output{'s' * (order.outputs > 1)}" + (
        f", {order.where}" if order.where else ""
    )


def _with(order: Order) -> str:
    told = str(order.manner)
    return (
        f" with {told}"
        if told.startswith(("FMA", "products rounded"))
        else f" ({told})"
        if told
        else ""
    )


def without_bias(tree: Tree) -> Tree:
    """The tree of the terms alone."""
    return tree if not tree.added else Tree(tree.leaves, tree.nodes, 0).restricted(tree.terms)


def where_bias(tree: Tree) -> str:
    """``into the first 192 products``, ``after the last``, ``before the first``."""
    bias = tree.terms
    node = next(k for k, children in enumerate(tree.nodes) if bias in children)
    others = [c for c in tree.nodes[node] if c != bias]
    size = sum(tree.sizes[c] for c in others)
    first = min(tree.firsts[c] for c in others)
    if size == tree.terms:
        return "after the last"
    if size == 1:
        return "before the first" if first == 0 else f"to product {first} first"
    if first == 0:
        return f"behind the first {size:,}"
    return f"to the {size:,} products from number {first:,} on"


def _properties(account: Account) -> list[str]:
    return (
        ["What else differs in how they compute:", *(f"  {text}" for text in account.properties)]
        if account.properties
        else []
    )


def _threshold(account: Account) -> list[str]:
    found = account.threshold
    if found is None or not found.measured:
        return []
    name, size = found.name, found.measured
    beyond = format_percent(found.beyond)
    at = f"{name} = {size}: the same bits; {name} = {size + 1}: {beyond} differ"
    if found.confirmed:
        return [
            f"They agree exactly while {name} ≤ {size:,}: so the trees say, and so it is ({at})."
        ]
    said = (
        f"; the trees of this size say {found.predicted:,}: a smaller size is cut otherwise"
        if found.predicted
        else ""
    )
    return [f"They agree exactly while {name} ≤ {size:,} (measured: {at}{said})."]


def picture(account: Account) -> str:
    """The trees of both sides below each other, as SVG; empty where none was found."""
    shapes = " · ".join("×".join(map(str, shape)) for shape in account.shapes)
    one, other = account.orders
    shown = [
        (side.name, orders) for side, orders in zip(account.sides, account.orders, strict=True)
    ]
    if one.orders and _each(BOTH, one) == _each(BOTH, other):
        shown = [(BOTH, one)]
    trees = [
        (
            name + ("" if len(orders.orders) == 1 else f", {_at(order)}"),
            (
                f"{text(order.tree)}{_with(order)} · {order.outputs:,} of {orders.outputs:,} "
                f"outputs "
                f"replayed bit for bit"
            ),
            order.tree,
        )
        for name, orders in shown
        for order in orders.orders[:DRAWN]
    ]
    if not trees:
        return ""
    a, b = (side.name for side in account.sides)
    more = [
        f"{len(orders.orders) - DRAWN} more orders of {name} are not drawn."
        for name, orders in shown
        if len(orders.orders) > DRAWN
    ]
    return tree_chart(
        f"{a} and {b}",
        trees,
        [f"{account.operator.name}, {account.case.dtype}, {shapes}", *_short(account), *more],
    )


def _short(account: Account) -> list[str]:
    return [_difference(account), *_threshold(account)]


def to_json(account: Account) -> dict[str, Any]:
    """The same for programs."""
    sides = [
        {
            "name": side.name, "verdict": str(found.verdict),
            "rho_max": found.metrics.get("rho_max", 0.0),
            "inconclusive": orders.inconclusive, "calls": orders.calls, "untested": orders.untested,
            "orders": [
                {
                    "order": text(order.tree), "hash": order.tree.hash, "terms": order.tree.terms,
                    "fma": order.manner.fused,
                    "outputs": order.outputs, "where": order.where, "replayed": order.outputs,
                }
                for order in orders.orders
            ],
        }
        for side, found, orders in zip(account.sides, account.judged, account.orders, strict=True)
    ]  # fmt: skip
    body: dict[str, Any] = {
        "operator": account.operator.name, "dtype": account.case.dtype,
        "shapes": [list(s) for s in account.shapes],
        "elements": account.elements, "differing": account.differing,
        "largest_difference": account.apart,
        "float64_ratio": account.ratio if math.isfinite(account.ratio) else None,
        "explained": account.explained, "sides": sides,
    }  # fmt: skip
    if account.threshold is not None:
        t = account.threshold
        body["threshold"] = {
            "name": t.name,
            "predicted": t.predicted,
            "measured": t.measured,
            "beyond": t.beyond,
        }
    return body | {"properties": list(account.properties), "words": lines(account)}
