"""Simpler arguments: omitted, or 0, 1, None, False, as long as the case still fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...core import recipe
from ...core.model import Case
from .failure_predicate import Search

_MAX_PAIRED_TENSORS = 6  # tensors
Path = tuple[Any, ...]  # ("args" or "kwargs", position or name, positions within lists …)


def simplify_arguments(search: Search) -> None:
    """Remove arguments where possible, then simplify every value."""
    search.report("arguments")
    _remove_arguments(search)
    for path, _ in list(values_of(search.case)):
        while (value := value_at(search.case, path)) is not None and any(
            search.accept(with_value(search.case, path, other))
            for other in simpler(value)
            if _may_replace(search, value, other)
        ):
            search.report("arguments")


def _may_replace(search: Search, value: recipe.Arg, other: recipe.Arg) -> bool:
    """Tensors of mutating operators are not removed, because mutated ones are identified by
    position."""
    return not (search.predicate.operator.mutates and list(recipe.tensors(value)) and other is None)


def _remove_arguments(search: Search) -> None:
    case = search.case
    if search.predicate.operator.mutates:
        kept = {name: value for name, value in case.kwargs.items() if list(recipe.tensors(value))}
        search.accept(replace(case, kwargs=kept))
    elif case.kwargs:
        search.accept(replace(case, kwargs={}))
    for name in list(search.case.kwargs):
        case = search.case
        if _may_replace(search, case.kwargs[name], None):
            search.accept(
                replace(
                    case, kwargs={key: value for key, value in case.kwargs.items() if key != name}
                )
            )
    _remove_tensor_pairs(search)
    while len(search.case.args) > 1 and _may_replace(search, search.case.args[-1], None):
        if not search.accept(replace(search.case, args=search.case.args[:-1])):
            break


def _remove_tensor_pairs(search: Search) -> None:
    """Replace two tensors by None together, such as a running mean and variance."""
    if search.predicate.operator.mutates:
        return
    paths = [
        path
        for path, value in values_of(search.case)
        if isinstance(value, recipe.TENSORS) and path != ("args", 0)
    ]
    for i, first in enumerate(paths[:_MAX_PAIRED_TENSORS]):
        for second in paths[i + 1 : _MAX_PAIRED_TENSORS]:
            if (
                value_at(search.case, first) is not None
                and value_at(search.case, second) is not None
            ):
                search.accept(with_value(with_value(search.case, first, None), second, None))


def values_of(case: Case) -> Iterator[tuple[Path, recipe.Arg]]:
    """Every argument, and every item of lists, with its path."""

    def walk(path: Path, value: recipe.Arg) -> Iterator[tuple[Path, recipe.Arg]]:
        yield path, value
        if isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                yield from walk((*path, i), item)

    for i, value in enumerate(case.args):
        yield from walk(("args", i), value)
    for name, value in case.kwargs.items():
        yield from walk(("kwargs", name), value)


def value_at(case: Case, path: Path) -> recipe.Arg:
    """The argument at a path; None if there is none."""
    value: Any = case.args if path[0] == "args" else case.kwargs
    for key in path[1:]:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return None
    return value


def with_value(case: Case, path: Path, other: recipe.Arg) -> Case:
    """The case with another value at ``path``."""

    def put(value: Any, keys: Path) -> Any:
        if not keys:
            return other
        if isinstance(value, dict):
            return {**value, keys[0]: put(value[keys[0]], keys[1:])}
        items = list(value)
        items[keys[0]] = put(items[keys[0]], keys[1:])
        return type(value)(items)

    if path[0] == "args":
        return replace(case, args=put(case.args, path[1:]))
    return replace(case, kwargs=put(dict(case.kwargs), path[1:]))


def simpler(value: recipe.Arg) -> list[recipe.Arg]:
    """Values to try instead, the simplest first; each is strictly simpler, so the search
    terminates."""
    match value:
        case None:
            return []
        case bool():
            return [False] if value else []
        case int():
            candidates = [
                v
                for v in (0, 1, 2, abs(value), value // 2)
                if (abs(v), v < 0) < (abs(value), value < 0)
            ]
            return list(dict.fromkeys(candidates))
        case float():
            return _simpler_number(value)
        case complex():
            return [
                v for v in (0.0, 1.0, complex(round(value.real), round(value.imag))) if v != value
            ]
        case recipe.Index():
            return [recipe.Index(None, None, None)] if value != recipe.Index() else []
        case recipe.DType() | recipe.MemoryFormat() | str():
            return [None]
        case list() | tuple():
            return [None, type(value)(value[:1])] if len(value) > 1 else [None]
    return [None] if isinstance(value, recipe.TENSORS) else []


def _simpler_number(value: float) -> list[recipe.Arg]:
    if not math.isfinite(value):
        return [0.0, 1.0]
    candidates = [
        0.0,
        1.0,
        abs(value),
        float(round(value)),
        _few_digits(value, 1),
        _few_digits(value, 2),
    ]
    return [v for v in dict.fromkeys(candidates) if digits(v) < digits(value)]


def _few_digits(value: float, count: int) -> float:
    return float(f"{value:.{count}g}")


def digits(value: float) -> tuple[int, bool, float]:
    """The reading complexity of a number: 0 and 1 are simplest, then by length, then by sign."""
    if value in (0.0, 1.0):
        return 0, False, value
    return len(repr(abs(value))), value < 0, abs(value)
