"""Reverse-mode differentiation of nodes for given cotangents."""

from __future__ import annotations

from collections.abc import Sequence

from .elementwise import add
from .nodes import Deadline, Node

A_NODE = 30  # cost of differentiating one node, in computed elements


def gradients(roots: Sequence[tuple[Node, Node]], leaves: Sequence[Node]) -> list[Node | None]:
    """The gradient of Σ root·cotangent with respect to each leaf, in the leaf's shape; None where
    no root depends on the leaf."""
    reach = _between([root for root, _ in roots], leaves)
    by_node: dict[Node, Node] = {}
    for root, cotangent in roots:
        if root in reach:
            by_node[root] = add(by_node[root], cotangent) if root in by_node else cotangent
    for node in sorted(reach, key=lambda n: -n.number):
        gradient = by_node.get(node)
        if gradient is None or not any(source in reach for source in node.inputs):
            continue
        Deadline.spend(A_NODE)
        for source, part in zip(node.inputs, node.pull(gradient), strict=True):
            if part is not None and source in reach:
                by_node[source] = add(by_node[source], part) if source in by_node else part
    return [by_node.get(leaf) for leaf in leaves]


def _between(roots: Sequence[Node], leaves: Sequence[Node]) -> set[Node]:
    """The nodes on a path from a root to a leaf."""
    below: list[Node] = []
    visited: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            below.append(node)
            stack.extend(node.inputs)
    targets = set(leaves)
    for node in sorted(below, key=lambda n: n.number):
        if node not in targets and any(source in targets for source in node.inputs):
            targets.add(node)
    return targets & visited
