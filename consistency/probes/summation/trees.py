"""Summation trees, and their recovery from the results of sums of chosen numbers.

The method is FPRev's (arXiv 2411.00442). All terms are 1, except +M at ``i`` and -M at ``j``, with
M so large that any term added to it is lost. The lost terms are the leaves below the lowest common
ancestor of ``i`` and ``j``, so n minus the result counts these leaves. :func:`recover` deduces the
tree from such counts.
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
# For each (pivot, others): the number of leaves below the lowest common ancestor of the pivot and
# each of the others.
Ask = Callable[[Sequence[tuple[int, Members]]], list[Counts]]


class NotATreeError(ConsistencyError):
    """The results do not match any fixed summation tree: the order varies between calls, or the
    operation is not a plain sum."""


@dataclass(frozen=True)
class Tree:
    """Leaves ``0 … leaves - 1`` are the terms; node ``leaves + k`` adds the nodes ``nodes[k]``,
    children before parents.

    A node with more than two children adds them in one operation. The last ``added`` leaves are a
    bias, not terms of the sum.
    """

    leaves: int
    nodes: tuple[tuple[int, ...], ...]
    added: int = 0

    @property
    def terms(self) -> int:
        """Number of terms, without a bias."""
        return self.leaves - self.added

    @property
    def root(self) -> int:
        return self.leaves + len(self.nodes) - 1

    @cached_property
    def sizes(self) -> list[int]:
        """Number of leaves below each leaf and node."""
        sizes = [1] * self.leaves
        for children in self.nodes:
            sizes.append(sum(sizes[c] for c in children))
        return sizes

    @cached_property
    def firsts(self) -> list[int]:
        """Lowest leaf below each leaf and node."""
        firsts = list(range(self.leaves))
        for children in self.nodes:
            firsts.append(min(firsts[c] for c in children))
        return firsts

    @cached_property
    def lasts(self) -> list[int]:
        """Highest leaf below each leaf and node."""
        lasts = list(range(self.leaves))
        for children in self.nodes:
            lasts.append(max(lasts[c] for c in children))
        return lasts

    @cached_property
    def hash(self) -> str:
        """Ten hexadecimal digits, equal for trees that add the same leaves in the same order up to
        commutation of each addition."""
        digests = [str(i).encode("ascii") for i in range(self.terms)] + [b"+"] * self.added
        for children in self.nodes:
            ordered = sorted(children, key=lambda c: self.firsts[c])
            digests.append(
                hashlib.sha256(b"(" + b" ".join(digests[c] for c in ordered) + b")").digest()
            )
        return hashlib.sha256(digests[-1]).hexdigest()[:10]

    @property
    def widest(self) -> int:
        """Largest number of operands of one addition."""
        return max((len(children) for children in self.nodes), default=1)

    def restricted(self, terms: int) -> Tree:
        """The tree without all but its first ``terms`` terms (and the bias); a node with one
        remaining child is replaced by that child."""
        new_ids: list[int] = [i if i < terms else -1 for i in range(self.terms)]
        new_ids += [terms + i for i in range(self.added)]
        nodes: list[tuple[int, ...]] = []
        for children in self.nodes:
            remaining = tuple(new_ids[c] for c in children if new_ids[c] >= 0)
            if len(remaining) < 2:
                new_ids.append(remaining[0] if remaining else -1)
            else:
                nodes.append(remaining)
                new_ids.append(terms + self.added + len(nodes) - 1)
        return Tree(terms + self.added, tuple(nodes), self.added)


def recover(leaves: int, ask: Ask, *, added: int = 0) -> Tree:
    """The tree that gives these counts. Raises NotATreeError if there is none.

    The counts of one pivot determine all nodes on its path to the root: leaves with equal counts
    branch off at the same node. They form one subtree, or several if that node adds more than two
    operands; the counts of a pivot among them decide. All pivots of one round are queried together.
    A node that adds several terms *exactly* loses only +M and -M: each of its leaves then has the
    count of the pivot's side plus 1, regardless of their number.
    """
    # Children of the nodes created so far; a leaf is -1 - leaf until nodes are numbered.
    children: list[list[int]] = []
    top: list[int] = []
    # Members, size of the parent node, its children.
    tasks: list[tuple[Members, int, list[int]]] = [(np.arange(leaves), leaves + 1, top)]
    while tasks:
        for members, _, parent_children in tasks:
            if len(members) == 1:
                parent_children.append(-1 - int(members[0]))
        tasks = [task for task in tasks if len(task[0]) > 1]
        answers = ask([(int(members[0]), members[1:]) for members, _, _ in tasks]) if tasks else []
        following: list[tuple[Members, int, list[int]]] = []
        for (members, limit, parent_children), counts in zip(tasks, answers, strict=True):
            others = members[1:]
            if ((counts < 2) | (counts > limit)).any():
                raise NotATreeError(
                    "the counts are not those of a sum that loses what is added to a large number"
                )
            path_node, siblings = -1 - int(members[0]), others[counts == limit]
            path_counts, size = counts[counts < limit], 1
            order = np.argsort(path_counts, kind="stable")
            sorted_counts, sorted_others = path_counts[order], others[counts < limit][order]
            ends = (
                [*np.flatnonzero(np.diff(sorted_counts)).tolist(), len(sorted_counts) - 1]
                if len(sorted_counts)
                else []
            )
            start = 0
            for end in ends:
                group, count = sorted_others[start : end + 1], int(sorted_counts[end])
                exact_addition = len(group) > 1 and count == size + 1
                start, size = end + 1, size + len(group)
                if size != count and not exact_addition:
                    raise NotATreeError(
                        "the counts do not fit together: the order is not the same each time, or "
                        "no tree"
                    )
                children.append([path_node])
                if exact_addition:
                    children[-1] += [-1 - int(leaf) for leaf in group]
                    path_node = len(children) - 1
                    continue
                path_node = len(children) - 1
                following.append((np.sort(group), count, children[-1]))
            parent_children.append(path_node)
            if len(siblings):
                following.append((siblings, limit, parent_children))
        tasks = following
    if len(top) != 1:
        raise NotATreeError("what is summed falls into parts that are never added")
    return _numbered(leaves, children, top[0], added)


def _numbered(leaves: int, children: Sequence[Sequence[int]], root: int, added: int) -> Tree:
    """Nodes in an order that keeps few partial sums alive: the larger subtree first."""
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
    """The counts that a backend with this ``tree`` gives."""
    parent = [-1] * (tree.leaves + len(tree.nodes))
    for k, children in enumerate(tree.nodes):
        for child in children:
            parent[child] = tree.leaves + k

    def ask(tasks: Sequence[tuple[int, Members]]) -> list[Counts]:
        answers = []
        for pivot, others in tasks:
            ancestor_sizes, node = {}, pivot
            while node >= 0:
                ancestor_sizes[node] = tree.sizes[node]
                node = parent[node]
            row = []
            for other in others.tolist():
                node = other
                while node not in ancestor_sizes:
                    node = parent[node]
                row.append(ancestor_sizes[node])
            answers.append(np.array(row, dtype=np.int64))
        return answers

    return ask


def agreement(a: Tree, b: Tree) -> int:
    """The largest n for which both trees add their first n terms (and the bias) in the same order,
    or 0."""
    low, high = 0, min(a.terms, b.terms)
    while low < high:
        middle = (low + high + 1) // 2
        if a.restricted(middle).hash == b.restricted(middle).hash:
            low = middle
        else:
            high = middle - 1
    return low
