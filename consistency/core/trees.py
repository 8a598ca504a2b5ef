"""Nested arguments and results: tuples, lists and dictionaries of tensors and numbers."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence


def flatten(tree: Any) -> Iterator[Any]:
    """The leaves in order, through tuples, lists and dictionaries."""
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from flatten(item)
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from flatten(item)
    else:
        yield tree


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """``tree`` with ``function`` of every leaf, through tuples, lists and dictionaries."""
    if isinstance(tree, (tuple, list)):
        items = [map_leaves(function, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {name: map_leaves(function, item) for name, item in tree.items()}
    return function(tree)


def map_tensors(function: Callable[[torch.Tensor], Any], tree: Any) -> Any:
    """``tree`` with ``function`` of every tensor, through dataclasses and packed sequences, too."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, PackedSequence):  # torch wants its sizes on the CPU
        data, sizes, *order = tree
        return PackedSequence(function(data), sizes, *map_tensors(function, order))
    if isinstance(tree, (tuple, list)):
        items = [map_tensors(function, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {name: map_tensors(function, item) for name, item in tree.items()}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        result = copy.copy(tree)
        for field in dataclasses.fields(tree):  # also of a frozen one
            changed = map_tensors(function, getattr(tree, field.name))
            object.__setattr__(result, field.name, changed)
        return result
    return tree


def tensors_in(tree: Any) -> Iterator[torch.Tensor]:
    """Every tensor in order, through dataclasses, too."""
    for leaf in flatten(tree):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif dataclasses.is_dataclass(leaf):
            for field in dataclasses.fields(leaf):
                yield from tensors_in(getattr(leaf, field.name, None))
