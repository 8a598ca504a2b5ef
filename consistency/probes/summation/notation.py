"""A short text for a summation tree, in which equal parts are written once.

``sequential 192`` adds terms in order; ``10 × [sequential 192] + [sequential 128]`` adds the sums
of blocks in order; ``pairwise 8 × […]`` adds neighbors, then neighboring sums; ``halving 16 × […]``
adds the first half to the second; ``stride 16``: terms (or blocks) lie 16 apart; ``from 4``: starts
at the fifth term of the enclosing block (written unless it continues the preceding part);
``9 × (…)`` repeats a sequence without a subtotal; ``{4 at once}``: one addition of four terms.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from .trees import Tree

BIAS = "bias"
LONGEST = 400  # characters; longer texts are cut and distinguished by their hash
_LEVELS = ("pairwise", "halving")
_THROUGH = "on the way"
_FUSED = ("at once", "at once with the sum")


@dataclass(frozen=True)
class Repetition:
    """``count`` equal parts: the first begins ``offset`` leaves after the enclosing form's first
    leaf, each next one ``step`` leaves later."""

    part: Form
    count: int
    offset: int
    step: int = 0

    @property
    def begin(self) -> int:
        """The lowest leaf of all parts."""
        return self.offset + min(self.step * (self.count - 1), 0)


@dataclass(frozen=True)
class Form:
    """A subtree without its position: ``how`` its runs are added (``term`` and ``bias`` have no
    runs). Subtrees of the same structure compare equal."""

    how: str
    runs: tuple[Repetition, ...] = ()

    @functools.cached_property
    def size(self) -> int:
        """Number of leaves."""
        return 1 if not self.runs else sum(run.part.size * run.count for run in self.runs)

    @functools.cached_property
    def extent(self) -> int:
        """Distance from the first term to the last, inclusive."""
        runs = [run for run in self.runs if run.part.how != BIAS]
        return max(
            (run.begin + abs(run.step) * (run.count - 1) + run.part.extent for run in runs),
            default=1,
        )

    @property
    def gapless(self) -> bool:
        """Whether its terms are contiguous."""
        return self.extent == self.size - any(run.part.how == BIAS for run in self.runs)

    def __str__(self) -> str:
        if not self.runs:
            return self.how
        texts, before = [], Repetition(self, 0, 0)
        for run in self.runs:
            texts.append(self._run(run, before))
            before = before if run.part.how == BIAS else run
        parts = " + ".join(texts)
        return (
            f"{{{parts} {self.how}}}"
            if self.how in _FUSED
            else f"{self.how} {parts}"
            if self.how in _LEVELS
            else parts
        )

    def _run(self, run: Repetition, before: Repetition) -> str:
        if run.part.how == BIAS:
            return BIAS
        close = run.part.size if run.part.gapless else 0
        stride = f", stride {run.step}" if run.count > 1 and run.step != close else ""
        expected = {
            before.offset + before.step * before.count,
            before.offset + run.step,
            before.offset + before.count * before.part.size,
        }
        place = f" from {run.offset}" if run.begin and run.offset not in expected else ""
        if not run.part.runs:
            plain = self.how in _LEVELS or self.how in _FUSED
            return (
                f"1 at {run.offset}"
                if run.count == 1
                else f"{'' if plain else 'sequential '}{run.count}{stride}{place}"
            )
        inner = (
            str(run.part)
            if run.part.how in _FUSED
            else f"({run.part})"
            if run.part.how == _THROUGH
            else f"[{run.part}]"
        )
        return f"{inner}{place}" if run.count == 1 else f"{run.count} × {inner}{stride}{place}"


def form(tree: Tree) -> Form:
    """The tree as runs of equal parts."""
    return _Former(tree).of(tree.root)


def text(tree: Tree) -> str:
    """The notation of a tree, at most ``LONGEST`` characters."""
    words = str(form(tree))
    return (
        words
        if len(words) <= LONGEST
        else f"{words[: LONGEST - 40]}… ({tree.leaves} terms, {tree.hash})"
    )


class _Former:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.known: dict[int, Form] = {}

    def first(self, node: int) -> int:
        return self.tree.firsts[node]

    def is_bias(self, node: int) -> bool:
        return self.tree.terms <= node < self.tree.leaves

    def children(self, node: int) -> list[int]:
        """Children of a node sorted by first leaf; none for a leaf."""
        return (
            []
            if node < self.tree.leaves
            else sorted(self.tree.nodes[node - self.tree.leaves], key=self.first)
        )

    def of(self, node: int) -> Form:
        if node not in self.known:
            self.known[node] = self._build_form(node)
        return self.known[node]

    def _build_form(self, node: int) -> Form:
        if node < self.tree.leaves:
            return Form(BIAS if self.is_bias(node) else "term")
        level = self._level(node)
        if level is not None:
            return level
        runs: list[Repetition] = []
        for group in self._spine(node):
            if len(group) == 1:
                runs.append(self._single_run(group[0], node))
                continue
            operation = _FUSED[bool(runs)]
            start = min(map(self.first, group))
            parts = _joined([Repetition(self.of(p), 1, self.first(p) - start) for p in group])
            runs.append(Repetition(Form(operation, tuple(parts)), 1, start - self.first(node)))
        if len(runs) == 1 and runs[0].count == 1:
            return runs[0].part
        return Form("in order", tuple(_periods(_blocks(_joined(runs)))))

    def _single_run(self, node: int, parent: int) -> Repetition:
        return Repetition(self.of(node), 1, self.first(node) - self.first(parent))

    def _level(self, node: int) -> Form | None:
        """The form of a perfectly balanced subtree over 4, 8, 16 … equal parts, or None."""
        units, depth = [node], 0
        while True:
            families = [self.children(unit) for unit in units]
            below = [child for family in families for child in family]
            if (
                any(len(family) != 2 for family in families)
                or len({self.tree.sizes[child] for child in below}) != 1
            ):
                break
            if any(self.is_bias(child) for child in below):
                return None
            units, depth = below, depth + 1
        # Parts of a halving tree may be equal only at a higher level.
        while depth >= 2:
            part = self.of(units[0]) if units[0] != node else None
            if part is not None and all(self.of(unit) == part for unit in units):
                firsts = [self.first(unit) - self.first(node) for unit in units]
                for how, order in zip(
                    _LEVELS, (range(len(units)), _bits_reversed(depth)), strict=True
                ):
                    places = [firsts[i] for i in order]
                    steps = {b - a for a, b in itertools.pairwise(places)}
                    if len(steps) == 1:
                        return Form(how, (Repetition(part, len(units), places[0], steps.pop()),))
            parents = {
                child: unit
                for unit in self._above(node, depth - 1)
                for child in self.children(unit)
            }
            units, depth = list(dict.fromkeys(parents[unit] for unit in units)), depth - 1
        return None

    def _above(self, node: int, depth: int) -> list[int]:
        """The nodes ``depth`` levels below ``node``."""
        units = [node]
        for _ in range(depth):
            units = [child for unit in units for child in self.children(unit)]
        return units

    def _spine(self, node: int) -> list[list[int]]:
        """The operands of a running sum in order: groups of nodes, with more than one node where an
        addition takes several operands."""
        groups: list[list[int]] = []
        while True:
            family = self.children(node)
            largest = max(family, key=lambda c: self.tree.sizes[c])
            others = [c for c in family if c != largest]
            tie = any(self.tree.sizes[c] == self.tree.sizes[largest] for c in others)
            if tie or largest < self.tree.leaves or self._level(largest) is not None:
                break
            groups.append(others)
            node = largest
        groups.reverse()
        if len(family) > 2:
            return [family, *groups]
        bias = [c for c in family if self.is_bias(c)]
        after, first_distance = (
            [self.first(group[0]) for group in groups[:2]],
            self.first(family[-1]) - self.first(family[0]),
        )
        backwards = bool(after) and (
            after[0] < self.first(family[0]) or after[0] - after[-1] == first_distance
        )
        begin = (
            [*bias, *(c for c in family if c not in bias)]
            if bias and family[0] < self.tree.leaves
            else family
        )
        begin = begin[::-1] if backwards and not bias else begin
        return [*([c] for c in begin), *groups]


def _joined(runs: Sequence[Repetition]) -> list[Repetition]:
    """Merge equal parts at equal distances into one run."""
    merged: list[Repetition] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last is not None and last.part == run.part and run.part.how != BIAS:
            gap = run.offset - (last.offset + last.step * (last.count - 1))
            if last.count == 1 or gap == last.step:
                merged[-1] = Repetition(last.part, last.count + 1, last.offset, gap)
                continue
        merged.append(run)
    return merged


def _blocks(runs: list[Repetition]) -> list[Repetition]:
    """Where single terms precede blocks in a running sum, turn these terms into a block, too."""
    first, later = runs[0], [run for run in runs[1:] if run.part.how != BIAS]
    if (
        first.part.runs
        or first.part.how == BIAS
        or first.count == 1
        or not later
        or not later[0].part.runs
    ):
        return runs
    block = Form("in order", (Repetition(first.part, first.count, 0, first.step),))
    following = runs[1:]
    if following[0].part == block:  # the second block and its like: one run
        gap = following[0].offset - first.offset
        if following[0].count == 1 or following[0].step == gap:
            return [Repetition(block, following[0].count + 1, first.offset, gap), *following[1:]]
    return [Repetition(block, 1, first.offset), *following]


def _periods(runs: list[Repetition]) -> list[Repetition]:
    """Merge a periodic sequence of runs into one run of a part without a subtotal (written in
    parentheses)."""
    merged: list[Repetition] = []
    i = 0
    while i < len(runs):
        times = [(_times(runs, i, p), p) for p in range(1, 9)]
        count, period = max(times, key=lambda pair: (pair[0] >= 3, pair[0] * pair[1], -pair[1]))
        if count < 3 or any(run.part.how == BIAS for run in runs[i : i + period]):
            merged.append(runs[i])
            i += 1
            continue
        start = min(run.begin for run in runs[i : i + period])
        part = Form(
            _THROUGH,
            tuple(
                Repetition(r.part, r.count, r.offset - start, r.step) for r in runs[i : i + period]
            ),
        )
        merged.append(Repetition(part, count, start, runs[i + period].offset - runs[i].offset))
        i += count * period
    return merged


def _times(runs: list[Repetition], start: int, period: int) -> int:
    """How many times the ``period`` runs at ``start`` occur in succession."""
    first = runs[start : start + period]
    if start + 2 * period > len(runs):
        return 1
    step, count = runs[start + period].offset - first[0].offset, 1
    while True:
        candidate = runs[start + count * period : start + (count + 1) * period]
        expected = [Repetition(r.part, r.count, r.offset + count * step, r.step) for r in first]
        if candidate != expected:
            return count
        count += 1


def _bits_reversed(depth: int) -> list[int]:
    return [int(format(i, f"0{depth}b")[::-1], 2) for i in range(1 << depth)]
