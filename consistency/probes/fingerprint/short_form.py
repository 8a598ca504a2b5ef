"""Single answers out of the short form of a fingerprint that a bundle keeps: the other way round of
``sections.short``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .facts import Fact
from .sections import COLUMNS, FORMS

MOST_LINES, LONGEST = 200, 1000  # of what a bundle keeps: lines, characters of one


def lines_of(environment: Mapping[str, Any]) -> dict[str, str]:
    """The kept lines of one backend, bounded; empty where there are none."""
    kept = environment.get("fingerprint")
    items = list(kept.items())[:MOST_LINES] if isinstance(kept, dict) else []
    return {str(line)[:200]: str(told)[:LONGEST] for line, told in items}


def fact_of(kept: Mapping[str, str], what: str, dtype: str, about: str) -> Fact | None:
    """The answer to ``WHAT/DTYPE/ABOUT``, of sums of products and subnormal numbers; None where the
    lines do not hold it.

    Of subnormal numbers those that are kept are only counted, so None is all that is known of one
    that is not named.
    """
    if about == "subnormals":
        groups = _groups(kept.get("subnormal numbers", ""))
        answer = next((answer for answer, named in groups if (what, dtype) in _named(named)), "")
    else:
        answer = (
            _column(kept.get(f"sums of products {dtype}", ""), what, COLUMNS[about])
            if about in COLUMNS
            else ""
        )
    return Fact(f"{what}/{dtype}/{about}", answer) if answer else None


def _column(line: str, form: str, title: str) -> str:
    """``matmul, bmm: factors 11 bits; running sum 24 bits, nearest even | conv2d: …``; one group
    alone has no names."""
    if len(line) >= LONGEST:  # cut: the answer may not be whole
        return ""
    for group in line.split(" | "):
        names, colon, told = group.partition(": ")
        named = bool(colon) and set(names.split(", ")) <= set(FORMS)
        if named and form not in names.split(", "):
            continue
        found, taken = [], False
        for part in (told if named else group).split("; "):  # an answer may hold semicolons itself
            column = next(
                (column for column in COLUMNS.values() if part.startswith(f"{column} ")), ""
            )
            taken = column == title if column else taken
            if taken:
                found.append(part.removeprefix(f"{title} ") if column else part)
        return "; ".join(found)
    return ""


def _groups(line: str) -> Iterator[tuple[str, str]]:
    """``kept: 54 of 58; inputs flushed: matmul bfloat16; sqrt float64`` as pairs; what has no colon
    belongs to the names before."""
    groups: list[list[str]] = []
    for part in line.split("; "):
        answer, colon, told = part.partition(": ")
        if colon:
            groups.append([answer, told])
        elif groups:
            groups[-1].append(part)
    yield from ((answer, "; ".join(named)) for answer, *named in groups)


def _named(text: str) -> Iterator[tuple[str, str]]:
    """``matmul, linear float32, bfloat16; sqrt float64`` one by one."""
    for part in text.split("; "):
        whats: list[str] = []
        dtypes: list[str] = []
        for word in part.split(", "):
            what, _, dtype = word.partition(" ")
            if dtypes:
                dtypes.append(word)
            else:
                whats.append(what)
                dtypes += [dtype] if dtype else []
        yield from ((what, dtype) for what in whats for dtype in dtypes)
