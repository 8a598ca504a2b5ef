"""Names and positions of an operator's arguments, from signatures, torch's documentation, or
ATen schemas."""

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
# Interchangeable names of the first argument.
_FIRST_ARGUMENT_NAMES = frozenset({"input", "self", "x"})
MOST_NAMES = 64


def position_of(case: Case, name: str) -> int | None:
    """The position of the named argument; None if the operator has none of that name."""
    return positions_of(
        case.source if parse_source(case.source).kind == ATEN else case.operator
    ).get(name)


def names_of(operator: str) -> frozenset[str]:
    """The argument names that a predicate may use, including keyword-only ones."""
    return frozenset(positions_of(operator)) | _keywords(operator)


@functools.lru_cache(maxsize=4096)
def positions_of(name: str) -> dict[str, int]:
    """Where each argument of an operator may stand without its name."""
    positions: dict[str, int] = {}
    for names, _ in _signatures(name):
        for position, argument in enumerate(names[:MOST_NAMES]):
            positions[argument] = min(position, positions.get(argument, position))
    declared = operators.registry().get(name)
    first_position = min(
        (positions[alias] for alias in _FIRST_ARGUMENT_NAMES & positions.keys()),
        default=declared.leading if declared is not None else 0,  # what is written comes first
    )
    # Where no signature is known (max_pool2d is one of two functions) the first is all that is.
    if first_position in positions.values() or (declared is not None and not positions):
        for alias in _FIRST_ARGUMENT_NAMES:
            positions.setdefault(alias, first_position)
    return positions


@functools.lru_cache(maxsize=4096)
def _keywords(name: str) -> frozenset[str]:
    return frozenset(word for _, words in _signatures(name) for word in words[:MOST_NAMES])


@functools.lru_cache(maxsize=4096)
def _signatures(name: str) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """(positional names, keyword-only names) of every known overload."""
    if name.startswith(f"{ATEN}/"):
        return tuple(argument_names(name.removeprefix(f"{ATEN}/").partition(".")[0]))
    declared = operators.registry().get(name)
    if declared is None:
        return ()
    if declared.derivative_of is not None:  # what it is taken along comes last
        return _signatures(declared.derivative_of.name)
    if declared.form_of is not None:
        output_names = ("out", "out1", "out2", "out3")[: declared.leading]
        return tuple(
            ((*output_names, *names), words) for names, words in _signatures(declared.form_of.name)
        )
    found = tuple(_python_signatures(declared))
    if _inspectable(declared):  # ATen's function of that name may take them in another order
        return found
    return (*found, *argument_names(aten_name(declared)))


def aten_name(operator: Operator) -> str:
    """The name in ATen of an operator that is a built-in function of torch."""
    module, _, base = operator.name.rpartition(".")
    prefixed = f"{module}_{base}" if module in ("linalg", "special", "fft") else base
    return operator.aten or prefixed


def _inspectable(declared: Operator) -> bool:
    try:
        return bool(inspect.signature(declared.callable).parameters)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False


def _python_signatures(declared: Operator) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
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
            positional = tuple(word for word in names.split(",") if word.isidentifier())
            method = inspect.ismethoddescriptor(function) and positional[:1] != ("input",)
            yield (
                (("input", *positional) if method else positional),
                tuple(word for word in keywords.split(",") if word.isidentifier()),
            )
        return
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    yield (
        tuple(p.name for p in parameters if p.kind in positional_kinds),
        tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY),
    )


def argument_name(case: Case, position: int) -> str:
    """The name of a positional argument in predicates: its own if unambiguous, else argN."""
    source = case.source if parse_source(case.source).kind == ATEN else case.operator
    known = _signatures(source)
    names = known[0][0] if known else ()
    name = names[position] if position < len(names) else ""
    return (
        name
        if name and position_of(case, name) == position and name not in case.kwargs
        else f"arg{position}"
    )
