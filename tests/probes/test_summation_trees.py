"""Orders of summation: every planted one is found exactly, replayed exactly, and nothing else is
claimed."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from consistency import Backend, backends, operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.probes.fingerprint.query import Ask
from consistency.probes.fingerprint.rounding import fma, together
from consistency.probes.summation import order as facts
from consistency.probes.summation.notation import text
from consistency.probes.summation.operator_sums import layout_of
from consistency.probes.summation.orders import Orders, orders_of
from consistency.probes.summation.sums_in_operators import NotAskedError, Question
from consistency.probes.summation.tree_chart import WIDEST, tree_chart
from consistency.probes.summation.trees import NotATreeError, Tree, agreement, counts_of, recover
from tests.support.synthetic.orders import (
    BIAS,
    Sums,
    _nearest,
    at_once,
    blocks,
    lanes,
    pairwise,
    sequential,
    tree_of,
)
from tests.support.synthetic.products import Products, kahan
from tests.support.synthetic.products import fused as matrix_unit

K = 48
RANDOM = random.Random(5)


def asked(
    backend: Backend,
    name: str = "nn.functional.linear",
    terms: int = K,
    rows: int = 4,
    columns: int = 16,
) -> Orders:
    """What is found of a call of moderate size."""
    shapes = {
        "nn.functional.linear": ((rows, terms), (columns, terms), (columns,)), "matmul": ((rows,
        terms), (terms, columns)),
        "sum": ((rows, terms),),
    }[name]  # fmt: skip
    more = (-1,) if name == "sum" else ()
    tensors = tuple(
        TensorRecipe(s, "float32", ("uniform", -1.0, 1.0), (i + 1) << 20)
        for i, s in enumerate(shapes)
    )
    arguments = prepare(Case(name, "float32", (*tensors, *more))).build()
    args = tuple(arguments.args)
    return orders_of(
        Question(backend, operators.get(name), "float32", args, {}, layout_of(name, args, {}))
    )


ORDERS: dict[str, tuple[Any, str]] = {
    "one after another, bias first": (sequential([BIAS, *range(K)]), "bias + sequential 48"),
    "one after another, bias last": (sequential([*range(K), BIAS]), "sequential 48 + bias"),
    "from the end": (sequential([*reversed(range(K)), BIAS]), "sequential 48, stride -1 + bias"),
    "pairs": ((pairwise(range(K)), BIAS), "[pairwise 32] + [pairwise 16] + bias"),
    "lanes": ((lanes(K, 8), BIAS), "[pairwise 8 × [sequential 6, stride 8], stride 1] + bias"),
    "lanes in order": ((lanes(K, 4, sequential), BIAS),
    "4 × [sequential 12, stride 4], stride 1 + bias"),
    "blocks, bias in the first": (
        sequential([blocks(K, 16)[0], BIAS, *blocks(K, 16)[1:]]),
        "[sequential 16] + bias + 2 × [sequential 16]",
    ),
    "blocks, bias last": (sequential([*blocks(K, 20), BIAS]),
    "2 × [sequential 20] + [sequential 8] + bias"),
    "in turns, in one sum": (
        sequential([*(k for i in range(4) for k in range(i, K, 4)), BIAS]),
        "4 × (sequential 12, stride 4), stride 1 + bias",
    ),
    "halves, as two threads": (((sequential(range(24)), sequential(range(24, K))), BIAS),
    "2 × [sequential 24] + bias"),
    "pairs in blocks": (sequential([*blocks(K, 16, pairwise), BIAS]),
    "[pairwise 32] + [pairwise 16] + bias"),
    "three at once": ((at_once(K, 3, with_sum=False), BIAS), "16 × {3 at once} + bias"),
    "four and the sum": ((at_once(K, 4, with_sum=True), BIAS), ("{4 at once} + 11 × {4 at once "
    "with the sum} + bias")),
    "eight and the sum": ((at_once(K, 8, with_sum=True), BIAS), ("{8 at once} + 5 × {8 at once "
    "with the sum} + bias")),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("fused", [False, True], ids=["separate", "FMA"])
@pytest.mark.parametrize("name", ORDERS)
def test_planted_orders_are_found(name: str, fused: bool) -> None:
    nested, words = ORDERS[name]
    found = asked(Sums(lambda terms, rows, columns: nested, fused=fused))
    assert found.exact, found
    (order,) = found.orders
    assert order.tree.hash == tree_of(nested, K, 1).hash
    assert text(order.tree) == words
    assert order.outputs == found.outputs == found.equal == 64
    if (
        any(len(node) == 2 and min(node) < K for node in order.tree.nodes)
        and "pairs" not in name
        and "at once" not in words
    ):
        assert order.manner.fused is fused


@pytest.mark.parametrize("made", [
    sequential,
    pairwise,
    lambda terms: lanes(len(terms), 8),
    lambda terms: sequential(blocks(len(terms), 7)),
])  # fmt: skip
def test_plain_sums(made: Callable[[Any], Any]) -> None:
    found = asked(Sums(lambda terms, rows, columns: made(range(terms))), "sum", rows=24)
    assert found.exact
    assert found.orders[0].tree.hash == tree_of(made(range(K)), K).hash


def test_every_tree_is_recovered_from_its_counts() -> None:
    for _ in range(60):
        n = RANDOM.randrange(2, 50)
        parts: list[Any] = list(range(n))
        while len(parts) > 1:
            chosen = RANDOM.sample(parts, min(len(parts), RANDOM.choice([2, 2, 3, 5])))
            parts = [p for p in parts if p not in chosen] + [tuple(chosen)]
        tree = tree_of(parts[0], n)
        found = recover(n, counts_of(tree))
        assert found.hash == tree.hash
        assert text(found)
        assert found.restricted(n).hash == tree.hash


@contextlib.contextmanager
def deep() -> Iterator[None]:
    """Nested tuples are walked by recursion here, as trees of the package never are."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_large_trees_have_short_texts() -> None:
    for nested, words in (
        (sequential(blocks(2048, 384)), "5 × [sequential 384] + [sequential 128]"),
        (lanes(2048, 16), "pairwise 16 × [sequential 128, stride 16], stride 1"),
    ):
        with deep():
            tree = tree_of(nested, 2048)
        found = recover(2048, counts_of(tree))
        assert (found.hash, text(found)) == (tree.hash, words)


def test_drawings_are_well_formed_and_of_a_width_that_can_be_read() -> None:
    drawings: list[tuple[Any, int, tuple[str, ...]]] = [
        (sequential([*blocks(600, 96), BIAS]), 600, ("480 … 575", ">bias<")),
        (sequential([BIAS, *range(600)]), 600, ("0 … 599", ">bias<")),
        ((at_once(600, 4, with_sum=True), BIAS), 600, ("at once with the sum", "146 more alike")),
        ((lanes(592, 16), BIAS), 592, ("pairwise 16", "13 more alike")),
        (sequential([sequential(blocks(64, 4, pairwise)), *range(64, 100), BIAS]), 100,
            ("64 … 99",)),
    ]  # fmt: skip
    for nested, terms, words in drawings:
        with deep():
            drawn = tree_chart("<a> & b", [("one", "words", tree_of(nested, terms, 1))])
        root = ElementTree.fromstring(drawn)
        assert float(root.attrib["width"]) <= WIDEST + 60
        assert "<a>" not in drawn
        assert all(word in drawn for word in words), drawn


def test_places_with_orders_of_their_own_are_told_apart() -> None:
    def choose(terms: int, rows: int, columns: int) -> Any:
        edge = np.zeros((rows, columns), dtype=bool)
        edge[:, -4:] = True
        return [(~edge, sequential([*range(terms), BIAS])), (edge, (pairwise(range(terms)), BIAS))]

    found = asked(Sums(choose))
    assert found.exact
    assert [(text(o.tree), o.outputs) for o in found.orders] == [
        ("sequential 48 + bias", 48), ("[pairwise 32] + [pairwise 16] + bias", 16),
    ]  # fmt: skip


def test_corners_with_orders_of_their_own() -> None:
    """One output each: confirmed with other numbers, since one output may agree by chance."""

    def choose(terms: int, rows: int, columns: int) -> Any:
        found, rest = [], np.ones((rows, columns), dtype=bool)
        for place, size in zip([(0, 0), (0, -1), (-1, 0), (-1, -1)], (2, 3, 5, 7), strict=True):
            mask = np.zeros((rows, columns), dtype=bool)
            mask[place] = True
            rest &= ~mask
            found.append((mask, sequential([*blocks(terms, size), BIAS])))
        return [*found, (rest, sequential([*range(terms), BIAS]))]

    found = asked(Sums(choose), terms=16)
    assert found.exact
    assert sorted(o.outputs for o in found.orders) == [1, 1, 1, 1, 60]
    assert {o.tree.hash for o in found.orders} == {
        tree_of(sequential([*parts, BIAS]), 16, 1).hash
        for parts in (range(16), *(blocks(16, size) for size in (2, 3, 5, 7)))
    }


def test_edges_without_fma() -> None:
    class Mixed(Sums):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            found = super().call(operator, args, kwargs)
            if operator.name == "nn.functional.linear":
                found[:, -8:] = Sums(self.choose).call(operator, args, kwargs)[:, -8:]
            return found

    found = asked(Mixed(lambda terms, rows, columns: sequential([*range(terms), BIAS]), fused=True))
    assert found.exact
    assert [(order.manner.fused, order.outputs) for order in found.orders] == [
        (True, 32),
        (False, 32),
    ]


@pytest.mark.parametrize("before", [False, True], ids=["one by one", "summed up before"])
def test_what_a_vector_loop_leaves_over_is_not_always_fused(before: bool) -> None:
    """Eight running sums with FMA, then three terms of 51 by plain code."""
    vectors = lanes(48, 8)
    nested = (
        (vectors, sequential([48, 49, 50])) if before else sequential([vectors, 48, 49, 50]),
        BIAS,
    )
    found = asked(Sums(lambda terms, rows, columns: nested, fused=True, rest=48), terms=51)
    assert found.exact
    (order,) = found.orders
    assert str(order.manner) == "FMA, the last terms without"
    everywhere = asked(Sums(lambda terms, rows, columns: nested, fused=True), terms=51)
    assert [str(order.manner) for order in everywhere.orders] == ["FMA"]


def test_rows_that_begin_elsewhere_in_memory() -> None:
    """Loops that first come to an aligned address: each row of an odd number of terms by another
    tree, columns by 4 or 8 lanes."""

    def choose(terms: int, rows: int, columns: int) -> Any:
        found = []
        for peel, count in itertools.product(range(4), (4, 8)):
            mask = np.zeros((rows, columns), dtype=bool)
            mask[(4 - peel) % 4 :: 4, slice(0, 8) if count == 4 else slice(8, None)] = True
            sums = [sequential(range(peel + lane, terms, count)) for lane in range(count)]
            found.append((mask, (sequential([*range(peel), *sums]), BIAS)))
        return found

    found = asked(Sums(choose), terms=35, rows=8, columns=11)
    assert found.exact
    assert sorted(order.outputs for order in found.orders) == [6] * 4 + [16] * 4
    assert {order.where for order in found.orders} >= {"[::4, :8]", "[3::4, :8]", "[1::4, 8:]"}


def test_kernels_chosen_by_shape_are_asked_at_the_shape_that_counts() -> None:
    by_shape = Sums(
        lambda terms, rows, columns: (sequential if terms * rows < 100 else pairwise)(range(terms))
    )
    assert text(asked(by_shape, "matmul", terms=32, rows=4).orders[0].tree) == "pairwise 32"
    assert text(asked(by_shape, "matmul", terms=32, rows=2).orders[0].tree) == "sequential 32"


class Shuffled(Sums):
    """As atomics: another order each time."""

    def __init__(self) -> None:
        self.random = random.Random(3)
        super().__init__(
            lambda terms, rows, columns: sequential(
                [*self.random.sample(range(terms), terms), BIAS]
            )
        )


class Deceiving(Sums):
    """One order for large numbers, as in probes, and another one for usual ones."""

    def __init__(self) -> None:
        super().__init__(lambda terms, rows, columns: sequential([*range(terms), BIAS]))

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        honest = Sums(lambda terms, rows, columns: (pairwise(range(terms)), BIAS))
        return (super() if float(args[0].abs().max()) > 1e6 else honest).call(
            operator, args, kwargs
        )


@pytest.mark.parametrize(("backend", "words"), [
    (Shuffled(), "not give the same bits twice"),
    (Deceiving(), ""),
    (Products("kahan", {"float32": kahan()}), ""),
], ids=["random order", "another order in probes", "Kahan"])  # fmt: skip
def test_nothing_is_claimed_of_what_is_no_fixed_order(backend: Backend, words: str) -> None:
    found = asked(backend)
    assert not found.exact
    assert words in found.inconclusive
    fact = facts.fact("linear/float32/order", found, "")
    assert not fact.known
    assert fact.inconclusive


@pytest.mark.parametrize("guard", [0, 1, 3])
@pytest.mark.parametrize("terms", [4, 8])
def test_matrix_units(terms: int, guard: int) -> None:
    found = asked(Products("unit", {"float32": matrix_unit(terms, guard)}), "matmul")
    if not found.exact:
        # a sum that starts from zero has the first group at once, like any other; then it must be
        # found
        pytest.fail(str(found))
    assert found.orders[0].manner.guard == guard
    assert f"{terms} at once with the sum" in text(found.orders[0].tree)


def test_real_sums_of_this_machine_are_facts_or_inconclusive() -> None:
    ask = Ask(backends.resolve("cpu"))
    for form in ("sum", "linear", "conv2d"):
        fact = facts.of_form(ask, form, "float32")
        assert fact.known != bool(fact.inconclusive)
        assert not fact.known or "replayed bit for bit" in fact.evidence


def test_what_cannot_be_asked_says_why() -> None:
    x = torch.ones(4, 8)
    for name, args, words in (
        ("exp", (x,), "which numbers exp adds up is not known here"),
        ("sum", (x[:, :1].expand(4, 8), -1), "is expanded"),
        ("sum", (torch.ones(4, 1), -1), "has no order"),
        ("nn.functional.linear", (torch.ones(0, 8), x), "no elements"),
    ):
        with pytest.raises(NotAskedError, match=words):
            layout_of(name, args, {})
    half = tuple(t.half() for t in (x, x.T.contiguous()))
    found = orders_of(
        Question(
            backends.resolve("cpu"),
            operators.get("matmul"),
            "float16",
            half,
            {},
            layout_of("matmul", half, {}),
        )
    )
    assert "cannot be counted in float16" in found.inconclusive


def test_counts_of_no_tree_are_refused() -> None:
    with pytest.raises(NotATreeError):
        recover(4, lambda tasks: [np.full(len(others), 3) for _, others in tasks])


def test_agreement_of_two_trees() -> None:
    def tree(parts: Any) -> Tree:
        return tree_of(sequential(parts), K, 1)

    first = tree([blocks(K, 16)[0], BIAS, *blocks(K, 16)[1:]])
    assert agreement(first, tree([*blocks(K, 16), BIAS])) == 16
    assert agreement(first, first) == K
    assert agreement(tree([BIAS, *range(K)]), tree([*range(K), BIAS])) == 1


def test_fma_is_rounded_once() -> None:
    """Near ties of float32 that float64 would round twice."""
    n = 3000
    numbers = np.random.Generator(np.random.Philox(4))
    a = (1 + numbers.integers(0, 1 << 12, n) * 2.0**-12).astype(np.float32)
    b = (1 + (2 * numbers.integers(0, 1 << 11, n) + 1) * 2.0**-12).astype(np.float32)
    c = (np.where(numbers.integers(0, 2, n), 1.0, -1.0) * 2.0**-60).astype(np.float32)
    exact = [
        _nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert (fma(a, b, c) == np.array(exact)).all()
    assert ((a.astype(float) * b + c).astype(np.float32) != np.array(exact)).any()
    wide = [numbers.standard_normal(n) * 2.0 ** numbers.integers(-50, 50, n) for _ in range(3)]
    wide[2][:500] = -(wide[0] * wide[1])[:500]
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(*wide, strict=True)]
    assert (fma(*wide) == np.array(exact)).all()
    parts = [
        (numbers.standard_normal(n) * 2.0 ** numbers.integers(-40, 40, n))
        .astype(np.float32)
        .astype(float)
        for _ in range(9)
    ]
    exact = [
        _nearest(sum((Fraction(x) for x in column), Fraction(0)))
        for column in zip(*parts, strict=True)
    ]
    assert (together(parts, np.float32) == np.array(exact)).all()
