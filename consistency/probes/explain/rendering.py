"""An account as text, as an SVG chart, and as JSON."""

from __future__ import annotations

import math
from typing import Any

from ...core.detail import BeyondStatistics
from ...core.text import format_factor, format_percent
from ...diagnose.precision_scaling import power
from ...judge.judgment import Judgment
from ..summation.notation import text
from ..summation.orders import Order, Orders
from ..summation.tree_chart import tree_chart
from ..summation.trees import Tree
from .difference import Account

BOTH = "Both"
DRAWN = 3  # orders drawn per side, the most frequent ones


def lines(account: Account) -> list[str]:
    """The report's lines, the main result first."""
    if account.plainly:
        return [_difference(account), f"The difference is no rounding: {account.plainly}."]
    if account.algorithms is not None:
        return [
            _difference(account),
            *_precision(account),
            *(account.algorithms.lines(_names(account)) if account.differing else ()),
            *_properties(account),
        ]
    return [
        _difference(account),
        *_precision(account),
        *_orders(account),
        *_properties(account),
        *_threshold(account),
    ]


def _names(account: Account) -> tuple[str, str]:
    return account.sides[0].name, account.sides[1].name


def _difference(account: Account) -> str:
    a, b = (side.name for side in account.sides)
    if not account.differing:
        return f"{a} and {b} give the same bits: all {account.elements:,} elements."
    use_percent = account.elements > 200
    share = (
        f"{100.0 * account.differing / account.elements:.0f}% of the"
        if use_percent
        else f"{account.differing} of {account.elements}"
    )
    return f"{share} elements differ, by at most {account.apart:.2g}; {_judged(account)}."


def _judged(account: Account) -> str:
    """``each is at most 0.01 × budget from float64: rounding``, or one sentence per side where
    their verdicts differ."""

    def times(rho: float) -> str:
        return (
            f"at most {format_factor(rho)} × budget from float64"
            if math.isfinite(rho)
            else "beyond every budget"
        )

    rhos = [found.metrics.get("rho_max", 0.0) for found in account.judged]
    if account.rounding:
        return f"each is {times(max(rhos))}: rounding"
    judged_sides = zip(account.sides, account.judged, rhos, strict=True)
    sentences = [
        f"{s.name} is {times(rho)}: rounding"
        if judgment_.verdict.passes
        else f"{s.name}: {_objection(judgment_)}"
        for s, judgment_, rho in judged_sides
    ]
    return "; ".join(sentences)


def _objection(judgment_: Judgment) -> str:
    """The verdict and its reason. It contains no × budget figure: where only a statistic fails,
    that figure would suggest success."""
    detail = judgment_.detail
    if isinstance(detail, BeyondStatistics) and judgment_.metrics.get("rho_max", 0.0) <= 1.0:
        return (
            f"{judgment_.verdict}: each element by itself might be rounding, but {detail.statistic}"
        )
    return f"{judgment_.verdict}: {judgment_.explanation}"


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
        status = "Fully explained" if account.differing else "Found"
        head = (
            f"{status}: {account.replayed:,} of {total:,} outputs replayed bit for bit, on both "
            f"sides."
        )
        return [head, *_both_orders(account)]
    missing = [
        f"{side.name}: {_missing(orders)}"
        for side, orders in zip(account.sides, account.orders, strict=True)
        if _missing(orders)
    ]
    if len(missing) == 2 and _missing(a) == _missing(b):
        missing = [f"{BOTH}: {_missing(a)}"]
    order_lines = [
        line
        for side, orders in zip(account.sides, account.orders, strict=True)
        for line in _side_orders(side.name, orders)
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
    return [head, *(f"  {line}" for line in missing), *order_lines]


def _missing(orders: Orders) -> str:
    if orders.inconclusive:
        return f"inconclusive: {orders.inconclusive}"
    if orders.apart is not None:
        failed = orders.apart
        place = f"[{', '.join(map(str, failed.index))}]" if orders.outputs > 1 else "the output"
        tried_order = "what was found" if len(orders.orders) > 1 else text(failed.tree)
        gives = (
            f", {'the first order' if len(orders.orders) > 1 else 'that'} gives {failed.given!r}"
            * (failed.given != failed.came)
        )
        untested = (
            "; ".join(("", f"{orders.untested:,} were not replayed")) if orders.untested else ""
        )
        return (
            f"{tried_order}, with and without FMA, does not give {failed.outputs:,} of "
            f"{orders.outputs:,} outputs; "
            f"{place} is {failed.came!r}{gives or ' (with other numbers they differ)'}{untested}"
        )
    if not all(order.confirmed for order in orders.orders):
        return "the order that was found gives these numbers, but not others of this size"
    return f"{orders.untested:,} outputs were not replayed" if orders.untested else ""


def _both_orders(account: Account) -> list[str]:
    """The orders of both sides, their common part stated once."""
    (a, b), (orders_a, orders_b) = (side.name for side in account.sides), account.orders
    if len(orders_a.orders) > 1 and _side_orders(BOTH, orders_a) == _side_orders(BOTH, orders_b):
        return _side_orders(BOTH, orders_a)
    if len(orders_a.orders) == len(orders_b.orders) == 1:
        first, second = orders_a.orders[0], orders_b.orders[0]
        bare = [without_bias(order.tree) for order in (first, second)]
        n = first.tree.terms
        if first.tree.hash == second.tree.hash and first.manner == second.manner:
            return [f"  Both sum their {n:,} terms alike{_manner(first)}: {text(first.tree)}."]
        if (
            bare[0].hash == bare[1].hash
            and first.manner == second.manner
            and first.tree.added
            and second.tree.added
        ):
            return [
                f"  Both sum {n:,} products in the same order{_manner(first)}: {text(bare[0])}.",
                f"  {a} adds the bias {where_bias(first.tree)}; {b} {where_bias(second.tree)}.",
            ]
    return [
        line
        for side, orders in zip(account.sides, account.orders, strict=True)
        for line in _side_orders(side.name, orders)
    ]


def _side_orders(name: str, orders: Orders) -> list[str]:
    """``cpu sums …``, or one line per order."""
    descriptions = [f"{text(order.tree)}{_manner(order)}." for order in orders.orders]
    if len(descriptions) < 2:
        return [f"  {name} sums {words}" for words in descriptions]
    return [
        f"  {name} sum{'s' * (name != BOTH)}",
        *(
            f"    {_at(order)}: {words}"
            for order, words in zip(orders.orders, descriptions, strict=True)
        ),
    ]


def _at(order: Order) -> str:
    return f"at {order.outputs:,} output{'s' * (order.outputs > 1)}" + (
        f", {order.where}" if order.where else ""
    )


def _manner(order: Order) -> str:
    manner = str(order.manner)
    return (
        f" with {manner}"
        if manner.startswith(("FMA", "products rounded"))
        else f" ({manner})"
        if manner
        else ""
    )


def without_bias(tree: Tree) -> Tree:
    """The tree of the terms, without the bias."""
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
    threshold = account.threshold
    if threshold is None or not threshold.measured:
        return []
    name, size = threshold.name, threshold.measured
    beyond = format_percent(threshold.beyond)
    at = f"{name} = {size}: the same bits; {name} = {size + 1}: {beyond} differ"
    if threshold.confirmed:
        return [
            f"They agree exactly while {name} ≤ {size:,}: so the trees say, and so it is ({at})."
        ]
    prediction = (
        f"; the trees of this size say {threshold.predicted:,}: a smaller size is cut otherwise"
        if threshold.predicted
        else ""
    )
    return [f"They agree exactly while {name} ≤ {size:,} (measured: {at}{prediction})."]


def picture(account: Account) -> str:
    """The trees of both sides as one SVG; empty if none was recovered."""
    shapes = " · ".join("×".join(map(str, shape)) for shape in account.shapes)
    orders_a, orders_b = account.orders
    drawn_orders = [
        (side.name, orders) for side, orders in zip(account.sides, account.orders, strict=True)
    ]
    if orders_a.orders and _side_orders(BOTH, orders_a) == _side_orders(BOTH, orders_b):
        drawn_orders = [(BOTH, orders_a)]
    trees = [
        (
            name + ("" if len(orders.orders) == 1 else f", {_at(order)}"),
            (
                f"{text(order.tree)}{_manner(order)} · {order.outputs:,} of {orders.outputs:,} "
                "outputs replayed bit for bit"
            ),
            order.tree,
        )
        for name, orders in drawn_orders
        for order in orders.orders[:DRAWN]
    ]
    if not trees:
        return ""
    a, b = (side.name for side in account.sides)
    omissions = [
        f"{len(orders.orders) - DRAWN} more orders of {name} are not drawn."
        for name, orders in drawn_orders
        if len(orders.orders) > DRAWN
    ]
    return tree_chart(
        f"{a} and {b}",
        trees,
        [f"{account.operator.name}, {account.case.dtype}, {shapes}", *_short(account), *omissions],
    )


def _short(account: Account) -> list[str]:
    return [_difference(account), *_threshold(account)]


def to_json(account: Account) -> dict[str, Any]:
    """The account as JSON values."""
    sides = [
        {
            "name": side.name, "verdict": str(judged.verdict),
            "rho_max": judged.metrics.get("rho_max", 0.0),
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
        for side, judged, orders in zip(account.sides, account.judged, account.orders, strict=True)
    ]  # fmt: skip
    body: dict[str, Any] = {
        "operator": account.operator.name, "dtype": account.case.dtype,
        "shapes": [list(s) for s in account.shapes],
        "elements": account.elements, "differing": account.differing,
        "largest_difference": account.apart,
        "float64_ratio": account.ratio if math.isfinite(account.ratio) else None,
        "explained": account.explained, "plainly": account.plainly, "sides": sides,
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
