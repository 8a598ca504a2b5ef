"""Reads the shipped cases of one operator × dtype; nothing is read before it is asked for.

``python tools/shipped_cases.py`` chooses the cases and writes the files.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.model import Case
from ...core.reading import lines
from ...operators import registry
from ...operators.declare import Operator

FOLDER = Path(__file__).parent
COUNTS = "counts"  # the file of how many cases each operator × dtype has in the others
REPORTED = "reported"  # the file of cases from public reports, of all families
Key = tuple[str, str]  # operator, dtype


def path_of(name: str) -> Path:
    """The file of a family, or of the reported cases, without the suffix of packed files."""
    return FOLDER / f"{name}.jsonl"


def cases(operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The shipped cases of an operator × dtype, those that notice most first; none for operators of
    the user, and where this torch lacks the operator. Raises BundleError for a damaged file."""
    if operator.callable is None or registry().get(operator.name) is not operator:
        return ()
    return _cases(operator.family, operator.name, dtype)


def first_cases(operator: Operator, dtype: str, most: int) -> tuple[Case, ...]:
    """The first ``most`` of :func:`cases`; the others are not built."""
    if operator.callable is None or registry().get(operator.name) is not operator:
        return ()
    return tuple(itertools.islice(_built(operator.family, operator.name, dtype), most))


def count(operator: Operator, dtype: str) -> int:
    """How many :func:`cases` there are, without reading them."""
    if operator.callable is None or registry().get(operator.name) is not operator:
        return 0
    return _counts().get((operator.name, dtype), 0)


@functools.cache
def _counts() -> Mapping[Key, int]:
    return {(row["operator"], row["dtype"]): row["cases"] for _, row in lines(path_of(COUNTS))}


@functools.cache
def _cases(family: str, operator: str, dtype: str) -> tuple[Case, ...]:
    return tuple(_built(family, operator, dtype))


def _built(family: str, operator: str, dtype: str) -> Iterator[Case]:
    key = operator, dtype
    for row in (*_rows(family).get(key, ()), *_rows(REPORTED).get(key, ())):
        yield Case.from_json({"operator": operator, "dtype": dtype, **row})


def is_shipped(case: Case) -> bool:
    """Whether the case is one of those that come with the package."""
    operator = registry().get(case.operator) if not case.source else None
    return operator is not None and case.id in _ids(operator.family, case.operator, case.dtype)


@functools.cache
def _ids(family: str, operator: str, dtype: str) -> frozenset[str]:
    return frozenset(case.id for case in _cases(family, operator, dtype))


def reported() -> int:
    """The number of cases that are inputs of public reports."""
    return sum(map(len, _rows(REPORTED).values()))


@functools.cache
def _rows(name: str) -> Mapping[Key, Sequence[dict[str, Any]]]:
    """The cases of one file as JSON data, without operator and dtype."""
    return {(row["operator"], row["dtype"]): row["cases"] for _, row in lines(path_of(name))}
