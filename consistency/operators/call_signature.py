"""How torch writes a call of an operator: the names of its arguments and their defaults."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch

from .declare import Operator

_FIRST_LINE = re.compile(r"\A\s*[\w.]+(\(.*?\))\s*(?:->.*)?$", re.MULTILINE)
_NAME = re.compile(r"\s*(\w+)\s*(?::[^=,]*)?(?:=.*)?\Z", re.DOTALL)


def call_signature(operator: Operator) -> str:
    """``softmax(input, dim, *, dtype=None)``; empty where torch does not say it."""
    arguments = _arguments(operator)
    return f"{operator.name}{arguments}" if arguments else ""


def argument_names(operator: Operator) -> tuple[str, ...]:
    """The names of the arguments that can be given by position, in order."""
    names = []
    for part in _split(_arguments(operator)[1:-1]):
        found = _NAME.match(part)
        if found is None:  # the star before arguments that need their name
            break
        names.append(found[1])
    return tuple(names)


def required_names(operator: Operator) -> tuple[str, ...]:
    """The names of those among :func:`argument_names` that have no default."""
    parts = _split(_arguments(operator)[1:-1])
    names = argument_names(operator)
    return tuple(n for n, part in zip(names, parts, strict=False) if "=" not in part)


def _arguments(operator: Operator) -> str:
    function = operator.callable
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
        plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
        return str(inspect.Signature(plain))
    except (TypeError, ValueError):  # functions in C++ say it in their documentation only
        found = _FIRST_LINE.match(str(getattr(function, "__doc__", None) or ""))
        return re.sub(r"\s*=\s*", "=", found[1]) if found is not None else _of_schema(operator)


def _of_schema(operator: Operator) -> str:
    """The arguments of ATen's first overload, of functions that torch does not document."""
    base = operator.aten or operator.name.rpartition(".")[2]
    get: Any = torch._C._jit_get_schemas_for_operator
    schemas = get(f"aten::{base}") or get(f"aten::{operator.name.partition('.')[0]}")
    if not schemas:
        return ""
    parts: list[str] = []
    for one in schemas[0].arguments:
        if one.kwarg_only and "*" not in parts:
            parts.append("*")
        name = "input" if one.name == "self" else one.name
        parts.append(name + (f"={one.default_value}" if one.has_default_value() else ""))
    return f"({', '.join(parts)})"


def _split(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
