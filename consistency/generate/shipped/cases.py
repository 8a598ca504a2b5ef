"""Reads the shipped cases of one operator × dtype; nothing is read before it is asked for.

``python tools/shipped_cases.py`` chooses the cases and writes the files.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...core.model import Case
from ...core.reading import lines, parse_json
from ...core.recipe import canonical
from ...errors import BundleError
from ...operators import registry
from ...operators.declare import Operator

FOLDER = Path(__file__).parent
COUNTS = "counts"  # the file of how many cases each operator × dtype has in the others
REPORTED = "reported"  # the file of cases from public reports, of all families
KEPT = 256  # operators × dtypes whose cases stay built; a run asks again for few of them
Key = tuple[str, str]  # operator, dtype
_LEFT_OUT: Mapping[str, Any] = {
    "args": [],
    "kwargs": {},
    "cotangent": 0,
}  # what files may leave out
# The end of a line, with the keys in the order of the alphabet, as they are written.
_END = re.compile(rb'"dtype":"(\w+)","operator":"([\w.]+)"\}\n\Z')


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


@functools.lru_cache(KEPT)
def _cases(family: str, operator: str, dtype: str) -> tuple[Case, ...]:
    return tuple(_built(family, operator, dtype))


def _built(family: str, operator: str, dtype: str) -> Iterator[Case]:
    key = operator, dtype
    for name in (family, REPORTED):
        row = _rows(name).get(key)
        for case in _cases_in(name, row) if row is not None else ():
            whole = {**_LEFT_OUT, "operator": operator, "dtype": dtype, **case}
            line = canonical(whole)
            if '{"literal":' in line:  # whose derived parts are left out, too
                yield Case.from_json(whole)
            else:
                yield Case.unread(operator, dtype, "", line, {})


def is_shipped(case: Case) -> bool:
    """Whether the case is one of those that come with the package."""
    operator = registry().get(case.operator) if not case.source else None
    return operator is not None and case.id in _ids(operator.family, case.operator, case.dtype)


@functools.cache
def _ids(family: str, operator: str, dtype: str) -> frozenset[str]:
    return frozenset(case.id for case in _cases(family, operator, dtype))


def reported() -> int:
    """The number of cases that are inputs of public reports."""
    return sum(len(_cases_in(REPORTED, row)) for row in _rows(REPORTED).values())


@functools.cache
def _rows(name: str) -> Mapping[Key, Mapping[str, Any]]:
    """The lines of one file, not parsed yet (:func:`_cases_in`): parsed, those of all families are
    80 MB, and a run may ask for few."""
    return {(row["operator"], row["dtype"]): row for _, row in lines(path_of(name), parse=_by_end)}


def _by_end(line: bytes) -> dict[str, Any] | None:
    """Operator, dtype and the whole line; None where it does not end as it should."""
    end = _END.search(line, max(0, len(line) - 200))
    return end and {"dtype": end[1].decode(), "operator": end[2].decode(), "line": line}


def _cases_in(name: str, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cases of a line, without operator and dtype. Raises BundleError where it is damaged."""
    try:
        return list((parse_json(row["line"]) if "line" in row else row)["cases"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        where = f"{row['operator']} in {row['dtype']}"
        raise BundleError(f"{path_of(name)}  {where}: damaged: {str(error)[:100]}") from None
