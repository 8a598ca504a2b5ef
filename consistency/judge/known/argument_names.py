"""How the arguments of an operator are called, and where they stand: by signature, torch's
documentation, or aten's schema."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator

from ... import operators
from ...core.case_source import ATEN, parse_source
from ...core.model import Case
from ...operators.catalog.signature import argument_names
from ...operators.declare import Operator

_LINE = re.compile(
    r"^[ \t]*(?:\.\. \w+:: *)?[\w.]+\(([^()]*(?:\([^()]*\)[^()]*)*)\) *(?:->.*)?$", re.MULTILINE
)
_FIRST = frozenset(
    {"input", "self", "x"}
)  # what the first argument of nearly everything is called, or may be
MOST_NAMES = 64


def position_of(case: Case, name: str) -> int | None:
    """Where the argument of that name stands among the positional ones; None where the operator has
    none of that name."""
    return _positions(case.source if parse_source(case.source).kind == ATEN else case.operator).get(
        name
    )


def names_of(operator: str) -> frozenset[str]:
    """The names by which a predicate may call an operator's arguments, those given by keyword
    included."""
    return frozenset(_positions(operator)) | _keywords(operator)


@functools.lru_cache(maxsize=4096)
def _positions(name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for names, _ in _signatures(name):
        for position, argument in enumerate(names[:MOST_NAMES]):
            found[argument] = min(position, found.get(argument, position))
    first = min((found[alias] for alias in _FIRST & found.keys()), default=0)
    for alias in _FIRST if first in found.values() else ():
        found.setdefault(alias, first)
    return found


@functools.lru_cache(maxsize=4096)
def _keywords(name: str) -> frozenset[str]:
    return frozenset(word for _, words in _signatures(name) for word in words[:MOST_NAMES])


@functools.lru_cache(maxsize=4096)
def _signatures(name: str) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """(positional names, names by keyword only) of every form that is known of an operator."""
    if name.startswith(f"{ATEN}/"):
        return tuple(argument_names(name.removeprefix(f"{ATEN}/").partition(".")[0]))
    declared = operators.registry().get(name)
    if declared is None:
        return ()
    if declared.form_of is not None:
        before = ("out", "out1", "out2", "out3")[: declared.leading]
        return tuple(
            ((*before, *names), words) for names, words in _signatures(declared.form_of.name)
        )
    return (*_of_python(declared), *argument_names(name.rpartition(".")[2]))


def _of_python(declared: Operator) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    function = declared.callable
    if function is None:
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        for line in _LINE.findall(getattr(function, "__doc__", None) or "")[:6]:
            words = [
                part.split("=")[0].split(":")[0].strip()
                for part in re.split(r",(?![^(\[]*[)\]])", line)
            ]
            names, _, keywords = ",".join(words).partition("*")
            own = tuple(word for word in names.split(",") if word.isidentifier())
            method = inspect.ismethoddescriptor(function) and own[:1] != ("input",)
            yield (
                (("input", *own) if method else own),
                tuple(word for word in keywords.split(",") if word.isidentifier()),
            )
        return
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    yield (
        tuple(p.name for p in parameters if p.kind in plain),
        tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY),
    )


def argument_name(case: Case, position: int) -> str:
    """How a predicate calls the positional argument of a case: by its name where one is known and
    no other means it, else argN."""
    source = case.source if parse_source(case.source).kind == ATEN else case.operator
    known = _signatures(source)
    names = known[0][0] if known else ()
    name = names[position] if position < len(names) else ""
    return (
        name
        if name and position_of(case, name) == position and name not in case.kwargs
        else f"arg{position}"
    )
