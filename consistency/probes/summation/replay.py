"""A recovered tree carried out on actual numbers, step by step in the backend's format: the
certificate that it is right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...core import dtypes
from ...core.bits import integers
from ..fingerprint.rounding import aligned, fma, shortened, together
from .sums_in_operators import Question
from .trees import Tree

Array = np.ndarray[Any, Any]
_FEW = 64  # outputs


@dataclass(frozen=True)
class Manner:
    """What a tree leaves open: whether products are rounded before they are added (``fused``: they
    are not); where the first two are added, whether the later one is fused or the first
    (``swapped``); what a mean does with the sum; the format it is kept in. ``wide``: that is a
    longer one than the numbers have. ``guard``: an addition of several terms cuts each so many bits
    below the last one of the largest, as matrix units do. ``bits``: factors are rounded to so many
    first, by ``mode``. ``halfway``: what a bias is added to was rounded to the numbers' own format
    before. ``tail``: products behind all partial sums, or in the last of them, are rounded, while
    the others are fused: what a loop over vectors leaves to plain code.
    """

    fused: bool = False
    swapped: bool = False
    scale: str = ""
    kept: str = "float32"
    products: bool = False

    guard: int | None = None
    wide: bool = False
    bits: int = 0
    mode: str = ""
    halfway: bool = False
    tail: bool = False

    @property
    def told(self) -> bool:
        """Whether there is something to say of it: sums of single numbers have no products."""
        return bool(str(self))

    def __str__(self) -> str:
        how = (
            "FMA, the last terms without"
            if self.tail
            else "FMA"
            if self.fused
            else "products rounded"
            if self.products
            else ""
        )
        how = "" if self.bits else how  # products of short numbers are exact, either way
        how = "in float64" if self.wide else how
        if self.guard is not None:
            how = f"several terms at once, cut off {self.guard} bits below the sum"
        short = f"factors rounded to {self.bits} bits ({self.mode})" if self.bits else ""
        before = "rounded before the bias is added" if self.halfway else ""
        return ", ".join(part for part in (short, how, before) if part)


@dataclass(frozen=True)
class Replayed:
    """What a tree gives in one manner at outputs [rows, columns], and which of these are the
    ``same`` bits as what came."""

    manner: Manner
    same: Array
    given: Array


def replay(
    question: Question,
    tree: Tree,
    actual: torch.Tensor,
    rows: Array,
    columns: Array,
    member: Array,
    *,
    every: bool = False,
    only: Manner | None = None,
) -> list[Replayed]:
    """The tree on the question's own arguments at the outputs ``rows`` × ``columns``, in one manner
    after the other, until one gives the bits of ``actual`` wherever ``member`` [rows, columns] is
    true; with ``every``, in all of them; or in one ``only``. """  # fmt: skip
    wanted = actual[torch.from_numpy(rows)][:, torch.from_numpy(columns)]
    manners = [only] if only is not None else list(_manners(question, tree))
    if (
        len(manners) > 1 and len(rows) * len(columns) > 4 * _FEW
    ):  # a few outputs tell which ones are worth the whole
        r, c = (np.unique(np.linspace(0, len(x) - 1, 8).astype(int)) for x in (rows, columns))
        few = actual[torch.from_numpy(rows[r])][:, torch.from_numpy(columns[c])]
        hits = [
            _played(question, tree, few, rows[r], columns[c], m).same[member[np.ix_(r, c)]].sum()
            for m in manners
        ]
        order = sorted(range(len(manners)), key=lambda k: -hits[k])
        manners = [manners[k] for k in order[:4]]
    tried: list[Replayed] = []
    for manner in manners:
        tried.append(_played(question, tree, wanted, rows, columns, manner))
        if tried[-1].same[member].all() and not every:
            break
    return tried


def _played(
    question: Question,
    tree: Tree,
    wanted: torch.Tensor,
    rows: Array,
    columns: Array,
    manner: Manner,
) -> Replayed:
    found = torch.from_numpy(evaluate(question, tree, rows, columns, manner)).to(wanted.dtype)
    return Replayed(
        manner, (_bits(found) == _bits(wanted)).numpy(), found.to(torch.float64).numpy()
    )


def evaluate(question: Question, tree: Tree, rows: Array, columns: Array, manner: Manner) -> Array:
    """The outputs that a tree gives, in the format that the sum is kept in."""
    kind = np.dtype(manner.kept)
    terms = _Terms(question, rows, columns, kind, manner)
    held: dict[int, Array] = {}
    rounded = _tail(tree) if manner.tail else set()
    for k, children in enumerate(tree.nodes):
        parts = sorted(
            children, key=lambda c: (c < tree.leaves, c)
        )  # sums first, then products, then a bias
        products = [c for c in parts if c < tree.terms]
        before = {c: held[c] for c in parts if c in held} if manner.halfway else {}
        if len(parts) > 2:
            several = [
                terms.exactly(c) if c < tree.leaves else held.pop(c).astype(np.float64)
                for c in parts
            ]
            total = (
                together(several, kind.type)
                if manner.guard is None
                else aligned(several, manner.guard)
            )
        elif (
            manner.fused and terms.right is not None and products and tree.leaves + k not in rounded
        ):
            last = products[0] if manner.swapped and len(products) == 2 else products[-1]
            other = next(c for c in parts if c != last)
            total = fma(
                *terms.factors(last), terms.value(other) if other < tree.leaves else held.pop(other)
            )
        else:
            one, two = (terms.value(c) if c < tree.leaves else held.pop(c) for c in parts)
            total = one + two
        if manner.halfway and any(tree.terms <= c < tree.leaves for c in parts):
            one, two = (
                terms.value(c) if c < tree.leaves else _in(before[c], question.dtype) for c in parts
            )
            total = one + two
        held[tree.leaves + k] = total
    found = np.broadcast_to(held[tree.root], (len(rows), len(columns)))
    if manner.scale == "divided":
        found = found / kind.type(tree.terms)
    elif manner.scale == "multiplied":
        found = found * (kind.type(1) / kind.type(tree.terms))
    return np.array(found)


def _tail(tree: Tree) -> set[int]:
    """Nodes that add the last terms, one by one or summed up before, to what comes from the others;
    none where the first terms are added one by one as well, so that there is nothing else.
    """
    found, node = set[int](), tree.root
    while node >= tree.leaves:
        children = sorted(tree.nodes[node - tree.leaves], key=lambda c: tree.firsts[c])
        if len(children) != 2 or tree.lasts[children[0]] > tree.firsts[children[1]]:
            return found
        found.add(node)
        below = [children[1]]
        while below:
            inner = below.pop()
            if inner >= tree.leaves:
                found.add(inner)
                below += tree.nodes[inner - tree.leaves]
        node = children[0]
    return set()


def _in(values: Array, dtype: str) -> Array:
    """The numbers as they are in another format, in their own."""
    return np.asarray(
        torch.from_numpy(np.array(values)).to(dtypes.TORCH[dtype]).to(torch.float32).numpy()
    )


class _Terms:
    """The terms of some outputs: one number, or two factors, for each leaf, shaped to be broadcast
    to [rows, columns]."""

    def __init__(
        self, question: Question, rows: Array, columns: Array, kind: np.dtype[Any], manner: Manner
    ) -> None:
        layout = question.layout

        def flat(argument: int) -> Array:
            tensor = question.args[argument].detach().reshape(-1)
            numbers = np.asarray(tensor.to(dtypes.TORCH[kind.name]).numpy())
            factor = manner.bits and argument in (layout.argument, layout.factor)
            return shortened(numbers, manner.bits, manner.mode) if factor else numbers

        self.terms, self.kind = layout.terms, kind
        source = np.append(flat(layout.argument), kind.type(0))  # position -1: padding
        self.left = np.ascontiguousarray(source[layout.left[rows]].T)[
            :, :, None
        ]  # [terms, rows, 1]
        self.right: Array | None = None
        if layout.right is not None:
            values = flat(layout.factor)[layout.right[:, columns]]  # [groups, columns, terms]
            if len(values) == 1:
                self.right = np.ascontiguousarray(values[0].T)[:, None, :]
            else:
                self.right = np.ascontiguousarray(values[layout.group[rows]].transpose(2, 0, 1))
        self.bias = (
            None if layout.bias is None else flat(layout.bias_at)[layout.bias[columns]][None, :]
        )
        self.shape = (len(rows), len(columns))

    def factors(self, leaf: int) -> tuple[Array, Array]:
        assert self.right is not None
        return self.left[leaf], self.right[leaf]

    def value(self, leaf: int) -> Array:
        """A term, rounded."""
        if leaf >= self.terms:
            assert self.bias is not None
            return np.broadcast_to(self.bias, self.shape)
        return np.asarray(
            self.left[leaf] if self.right is None else self.left[leaf] * self.right[leaf]
        )

    def exactly(self, leaf: int) -> Array:
        """A term in float64, where products of shorter formats are exact."""
        if leaf >= self.terms or self.right is None:
            return np.asarray(self.value(leaf), dtype=np.float64)
        return np.asarray(self.left[leaf].astype(np.float64) * self.right[leaf].astype(np.float64))


def _manners(question: Question, tree: Tree) -> Iterator[Manner]:
    kept = "float64" if question.dtype == "float64" else "float32"
    for scale in ("divided", "multiplied") if question.layout.scaled else ("",):
        if question.layout.right is None:
            yield Manner(scale=scale, kept=kept)
            continue
        pairs = any(len(c) == 2 and all(i < tree.terms for i in c) for c in tree.nodes)
        yield Manner(True, kept=kept, products=True)
        if pairs:
            yield Manner(True, True, kept=kept, products=True)
        yield Manner(False, kept=kept, products=True)
        if any(
            child < tree.terms for node in _tail(tree) for child in tree.nodes[node - tree.leaves]
        ):
            yield Manner(True, kept=kept, products=True, tail=True)
        if question.dtype != "float64":  # products are exact there
            yield Manner(False, kept="float64", products=True, wide=True)
        if question.dtype == "bfloat16" and tree.added:
            yield from (
                Manner(fused, kept=kept, products=True, halfway=True) for fused in (True, False)
            )
        guards: list[int | None] = list(range(5)) if tree.widest > 2 and kept == "float32" else []
        yield from (Manner(True, kept=kept, products=True, guard=guard) for guard in guards)
        if question.dtype == "float32":
            short = itertools.product(
                (11, 8), ("nearest even", "nearest away", "toward zero"), [None, *guards]
            )
            yield from (
                Manner(True, kept=kept, products=True, guard=g, bits=bits, mode=mode)
                for bits, mode, g in short
            )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bits as integers; zeros of either sign are the same, and so is any NaN."""
    plain = torch.where(tensor == 0, torch.zeros_like(tensor), tensor)
    plain = torch.where(torch.isnan(plain), torch.full_like(plain, float("nan")), plain)
    return integers(plain)
