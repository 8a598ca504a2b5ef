"""In which order numbers are added: a summation tree, and how it is recovered from what a sum
answers to chosen numbers.

The method is FPRev's (arXiv 2411.00442). All terms are 1, but +M at ``i`` and -M at ``j``, with M
so large that whatever is added to it is lost. What is lost are the terms below the lowest node that
has both ``i`` and ``j`` beneath it, so n minus the result is the number of leaves there. The rest
is deduction: see :func:`recover`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...errors import ConsistencyError

Counts = np.ndarray[tuple[int], np.dtype[np.int64]]
Members = np.ndarray[tuple[int], np.dtype[np.int64]]
# For each (pivot, others): how many leaves lie below the lowest node above both, for each of the
# others.
Ask = Callable[[Sequence[tuple[int, Members]]], list[Counts]]


class NotATreeError(ConsistencyError):
    """The answers are not those of one fixed summation tree: the order is not the same twice, or it
    is no plain sum."""


@dataclass(frozen=True)
class Tree:
    """Leaves ``0 … leaves - 1`` are the terms; node ``leaves + k`` adds the nodes ``nodes[k]``,
    children before parents.

    A node of more than two children adds them all at once. The last ``added`` leaves are no terms
    of the sum: a bias.
    """

    leaves: int
    nodes: tuple[tuple[int, ...], ...]
    added: int = 0

    @property
    def terms(self) -> int:
        """How many numbers are summed, without a bias."""
        return self.leaves - self.added

    @property
    def root(self) -> int:
        return self.leaves + len(self.nodes) - 1

    @cached_property
    def sizes(self) -> list[int]:
        """Leaves below every leaf and node."""
        found = [1] * self.leaves
        for children in self.nodes:
            found.append(sum(found[c] for c in children))
        return found

    @cached_property
    def firsts(self) -> list[int]:
        """The lowest leaf below every leaf and node."""
        found = list(range(self.leaves))
        for children in self.nodes:
            found.append(min(found[c] for c in children))
        return found

    @cached_property
    def lasts(self) -> list[int]:
        """The highest leaf below every leaf and node."""
        found = list(range(self.leaves))
        for children in self.nodes:
            found.append(max(found[c] for c in children))
        return found

    @cached_property
    def hash(self) -> str:
        """Ten digits that two trees share if they add the same leaves in the same way; a + b and b
        + a are the same."""
        digests = [str(i).encode("ascii") for i in range(self.terms)] + [b"+"] * self.added
        for children in self.nodes:
            ordered = sorted(children, key=lambda c: self.firsts[c])
            digests.append(
                hashlib.sha256(b"(" + b" ".join(digests[c] for c in ordered) + b")").digest()
            )
        return hashlib.sha256(digests[-1]).hexdigest()[:10]

    @property
    def widest(self) -> int:
        """The largest number of terms that one addition takes."""
        return max((len(children) for children in self.nodes), default=1)

    def restricted(self, terms: int) -> Tree:
        """The tree of the first ``terms`` terms (and the bias): the others are taken out, nodes
        left with one child closed."""
        kept: list[int] = [i if i < terms else -1 for i in range(self.terms)]
        kept += [terms + i for i in range(self.added)]
        nodes: list[tuple[int, ...]] = []
        for children in self.nodes:
            left = tuple(kept[c] for c in children if kept[c] >= 0)
            if len(left) < 2:
                kept.append(left[0] if left else -1)
            else:
                nodes.append(left)
                kept.append(terms + self.added + len(nodes) - 1)
        return Tree(terms + self.added, tuple(nodes), self.added)


def recover(leaves: int, ask: Ask, *, added: int = 0) -> Tree:
    """The tree that answers like this. Raises NotATreeError where none does.

    A pivot's row of answers tells all nodes on its way to the root: those leaves that share a count
    hang beside that way at the same node. They are one subtree, or several where a node adds more
    than two; which, tells the row of a pivot among them. The pivots of one round are asked for
    together. A node that adds several terms *exactly* loses none of the others beside +M and -M:
    each of its leaves then has the count of the pivot's side and 1, however many they are.
    """
    children: list[
        list[int]
    ] = []  # of the nodes made so far; leaves are known by -1 - leaf until all have numbers
    top: list[int] = []
    tasks: list[tuple[Members, int, list[int]]] = [
        (np.arange(leaves), leaves + 1, top)
    ]  # members, size of the node above, its children
    while tasks:
        for members, _, above in tasks:
            if len(members) == 1:
                above.append(-1 - int(members[0]))
        tasks = [task for task in tasks if len(task[0]) > 1]
        answers = ask([(int(members[0]), members[1:]) for members, _, _ in tasks]) if tasks else []
        following: list[tuple[Members, int, list[int]]] = []
        for (members, limit, above), counts in zip(tasks, answers, strict=True):
            others = members[1:]
            if ((counts < 2) | (counts > limit)).any():
                raise NotATreeError(
                    "the counts are not those of a sum that loses what is added to a large number"
                )
            here, beside = -1 - int(members[0]), others[counts == limit]
            inside, size = counts[counts < limit], 1
            order = np.argsort(inside, kind="stable")
            sorted_counts, sorted_others = inside[order], others[counts < limit][order]
            ends = (
                [*np.flatnonzero(np.diff(sorted_counts)).tolist(), len(sorted_counts) - 1]
                if len(sorted_counts)
                else []
            )
            start = 0
            for end in ends:
                group, count = sorted_others[start : end + 1], int(sorted_counts[end])
                several = len(group) > 1 and count == size + 1
                start, size = end + 1, size + len(group)
                if size != count and not several:
                    raise NotATreeError(
                        "the counts do not fit together: the order is not the same each time, "
                        "or "
                        "no tree"
                    )
                children.append([here])
                if several:
                    children[-1] += [-1 - int(leaf) for leaf in group]
                    here = len(children) - 1
                    continue
                here = len(children) - 1
                following.append((np.sort(group), count, children[-1]))
            above.append(here)
            if len(beside):
                following.append((beside, limit, above))
        tasks = following
    if len(top) != 1:
        raise NotATreeError("what is summed falls into parts that are never added")
    return _numbered(leaves, children, top[0], added)


def _numbered(leaves: int, children: Sequence[Sequence[int]], root: int, added: int) -> Tree:
    """Nodes in an order in which few partial sums wait at a time: the subtree with more leaves
    first."""
    sizes: dict[int, int] = {}
    stack, post = [root], []
    while stack:
        node = stack.pop()
        post.append(node)
        if node >= 0:
            stack += children[node]
    for node in reversed(post):
        sizes[node] = 1 if node < 0 else sum(sizes[c] for c in children[node])
    number: dict[int, int] = {}
    nodes: list[tuple[int, ...]] = []
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [] if node < 0 else [c for c in children[node] if c not in number]
        if waiting:
            stack += sorted(waiting, key=lambda c: sizes[c])
            continue
        stack.pop()
        if node in number:
            continue
        if node < 0:
            number[node] = -1 - node
        else:
            nodes.append(tuple(number[c] for c in children[node]))
            number[node] = leaves + len(nodes) - 1
    return Tree(leaves, tuple(nodes), added)


def counts_of(tree: Tree) -> Ask:
    """What a backend that adds by ``tree`` would answer."""
    parent = [-1] * (tree.leaves + len(tree.nodes))
    for k, children in enumerate(tree.nodes):
        for child in children:
            parent[child] = tree.leaves + k

    def ask(tasks: Sequence[tuple[int, Members]]) -> list[Counts]:
        found = []
        for pivot, others in tasks:
            above, node = {}, pivot
            while node >= 0:
                above[node] = tree.sizes[node]
                node = parent[node]
            row = []
            for other in others.tolist():
                node = other
                while node not in above:
                    node = parent[node]
                row.append(above[node])
            found.append(np.array(row, dtype=np.int64))
        return found

    return ask


def agreement(a: Tree, b: Tree) -> int:
    """The largest number of first terms for which both trees add alike, bias included; 0 where they
    never do."""
    low, high = 0, min(a.terms, b.terms)
    while low < high:
        middle = (low + high + 1) // 2
        if a.restricted(middle).hash == b.restricted(middle).hash:
            low = middle
        else:
            high = middle - 1
    return low
