"""Evaluate a recovered tree on the actual arguments, step by step in the backend's format. Equal
bits prove that the tree is right."""

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
    """How the additions of a tree round.

    ``fused``: products enter by FMA, unrounded; ``swapped``: of two products, the first is fused
    instead of the second. ``scale``: how a mean divides the sum. ``kept``: the accumulator's format
    (``wide``: wider than the arguments'). ``guard``: an addition of several terms truncates each of
    them this many bits below the last bit of the largest, as matrix units do. ``bits``, ``mode``:
    factors are first rounded to this many bits. ``halfway``: the sum is rounded to the arguments'
    format before the bias is added. ``tail``: the last products, after or in the last partial sum,
    are rounded while the others are fused: the scalar remainder of a vectorized loop.
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
        """Whether it has a description; sums without products have none."""
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
        how = "" if self.bits else how  # products of shortened factors are exact either way
        how = "in float64" if self.wide else how
        if self.guard is not None:
            how = f"several terms at once, cut off {self.guard} bits below the sum"
        short = f"factors rounded to {self.bits} bits ({self.mode})" if self.bits else ""
        before = "rounded before the bias is added" if self.halfway else ""
        return ", ".join(part for part in (short, how, before) if part)


@dataclass(frozen=True)
class Replayed:
    """The outputs [rows, columns] of a tree in one manner (``given``), and which of them equal the
    backend's bit for bit (``same``)."""

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
    """Evaluate the tree on the question's arguments at the outputs ``rows`` × ``columns``. Tries
    manners until one gives the bits of ``actual`` wherever ``member`` [rows, columns] is true; with
    ``every`` it tries all, with ``only`` just that one."""
    expected = actual[torch.from_numpy(rows)][:, torch.from_numpy(columns)]
    manners = [only] if only is not None else list(_manners(question, tree))
    if len(manners) > 1 and len(rows) * len(columns) > 4 * _FEW:
        # A sample of outputs selects the manners that are worth evaluating at all outputs.
        r, c = (np.unique(np.linspace(0, len(x) - 1, 8).astype(int)) for x in (rows, columns))
        sample = actual[torch.from_numpy(rows[r])][:, torch.from_numpy(columns[c])]
        hits = [
            _replay_once(question, tree, sample, rows[r], columns[c], m)
            .same[member[np.ix_(r, c)]]
            .sum()
            for m in manners
        ]
        order = sorted(range(len(manners)), key=lambda k: -hits[k])
        manners = [manners[k] for k in order[:4]]
    replays: list[Replayed] = []
    for manner in manners:
        replays.append(_replay_once(question, tree, expected, rows, columns, manner))
        if replays[-1].same[member].all() and not every:
            break
    return replays


def _replay_once(
    question: Question,
    tree: Tree,
    expected: torch.Tensor,
    rows: Array,
    columns: Array,
    manner: Manner,
) -> Replayed:
    outputs = torch.from_numpy(evaluate(question, tree, rows, columns, manner)).to(expected.dtype)
    return Replayed(
        manner, (_bits(outputs) == _bits(expected)).numpy(), outputs.to(torch.float64).numpy()
    )


def evaluate(question: Question, tree: Tree, rows: Array, columns: Array, manner: Manner) -> Array:
    """The outputs that a tree gives, in the accumulator's format."""
    kind = np.dtype(manner.kept)
    terms = _Terms(question, rows, columns, kind, manner)
    sums: dict[int, Array] = {}
    rounded = _tail(tree) if manner.tail else set()
    for k, children in enumerate(tree.nodes):
        # Sums first, then products, then a bias.
        parts = sorted(children, key=lambda c: (c < tree.leaves, c))
        products = [c for c in parts if c < tree.terms]
        unrounded_bias_operands = {c: sums[c] for c in parts if c in sums} if manner.halfway else {}
        if len(parts) > 2:
            operands = [
                terms.exactly(c) if c < tree.leaves else sums.pop(c).astype(np.float64)
                for c in parts
            ]
            total = (
                together(operands, kind.type)
                if manner.guard is None
                else aligned(operands, manner.guard)
            )
        elif (
            manner.fused and terms.right is not None and products and tree.leaves + k not in rounded
        ):
            last = products[0] if manner.swapped and len(products) == 2 else products[-1]
            addend = next(c for c in parts if c != last)
            total = fma(
                *terms.factors(last),
                terms.value(addend) if addend < tree.leaves else sums.pop(addend),
            )
        else:
            first, second = (terms.value(c) if c < tree.leaves else sums.pop(c) for c in parts)
            total = first + second
        if manner.halfway and any(tree.terms <= c < tree.leaves for c in parts):
            first, second = (
                terms.value(c)
                if c < tree.leaves
                else _rounded_to(unrounded_bias_operands[c], question.dtype)
                for c in parts
            )
            total = first + second
        sums[tree.leaves + k] = total
    outputs = np.broadcast_to(sums[tree.root], (len(rows), len(columns)))
    if manner.scale == "divided":
        outputs = outputs / kind.type(tree.terms)
    elif manner.scale == "multiplied":
        outputs = outputs * (kind.type(1) / kind.type(tree.terms))
    return np.array(outputs)


def _tail(tree: Tree) -> set[int]:
    """Nodes that add the last terms, singly or as a partial sum, to the sum of the others; empty
    for a purely sequential sum."""
    tail_nodes, node = set[int](), tree.root
    while node >= tree.leaves:
        children = sorted(tree.nodes[node - tree.leaves], key=lambda c: tree.firsts[c])
        if len(children) != 2 or tree.lasts[children[0]] > tree.firsts[children[1]]:
            return tail_nodes
        tail_nodes.add(node)
        pending = [children[1]]
        while pending:
            inner = pending.pop()
            if inner >= tree.leaves:
                tail_nodes.add(inner)
                pending += tree.nodes[inner - tree.leaves]
        node = children[0]
    return set()


def _rounded_to(values: Array, dtype: str) -> Array:
    """Values rounded to another format, as float32."""
    return np.asarray(
        torch.from_numpy(np.array(values)).to(dtypes.TORCH[dtype]).to(torch.float32).numpy()
    )


class _Terms:
    """The terms of some outputs: one number or two factors per leaf, broadcastable to
    [rows, columns]."""

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
        # [terms, rows, 1]
        self.left = np.ascontiguousarray(source[layout.left[rows]].T)[:, :, None]
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
        """A term, rounded to the accumulator's format."""
        if leaf >= self.terms:
            assert self.bias is not None
            return np.broadcast_to(self.bias, self.shape)
        return np.asarray(
            self.left[leaf] if self.right is None else self.left[leaf] * self.right[leaf]
        )

    def exactly(self, leaf: int) -> Array:
        """A term in float64, in which products of narrower formats are exact."""
        if leaf >= self.terms or self.right is None:
            return np.asarray(self.value(leaf), dtype=np.float64)
        return np.asarray(self.left[leaf].astype(np.float64) * self.right[leaf].astype(np.float64))


def _manners(question: Question, tree: Tree) -> Iterator[Manner]:
    accumulator = "float64" if question.dtype == "float64" else "float32"
    for scale in ("divided", "multiplied") if question.layout.scaled else ("",):
        if question.layout.right is None:
            yield Manner(scale=scale, kept=accumulator)
            continue
        pairs = any(len(c) == 2 and all(i < tree.terms for i in c) for c in tree.nodes)
        yield Manner(True, kept=accumulator, products=True)
        if pairs:
            yield Manner(True, True, kept=accumulator, products=True)
        yield Manner(False, kept=accumulator, products=True)
        if any(
            child < tree.terms for node in _tail(tree) for child in tree.nodes[node - tree.leaves]
        ):
            yield Manner(True, kept=accumulator, products=True, tail=True)
        if question.dtype != "float64":  # products are exact there
            yield Manner(False, kept="float64", products=True, wide=True)
        if question.dtype == "bfloat16" and tree.added:
            yield from (
                Manner(fused, kept=accumulator, products=True, halfway=True)
                for fused in (True, False)
            )
        guards: list[int | None] = (
            list(range(5)) if tree.widest > 2 and accumulator == "float32" else []
        )
        yield from (Manner(True, kept=accumulator, products=True, guard=guard) for guard in guards)
        if question.dtype == "float32":
            short = itertools.product(
                (11, 8), ("nearest even", "nearest away", "toward zero"), [None, *guards]
            )
            yield from (
                Manner(True, kept=accumulator, products=True, guard=g, bits=bits, mode=mode)
                for bits, mode, g in short
            )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bits as integers; both zeros are equal, and all NaNs are."""
    plain = torch.where(tensor == 0, torch.zeros_like(tensor), tensor)
    plain = torch.where(torch.isnan(plain), torch.full_like(plain, float("nan")), plain)
    return integers(plain)
