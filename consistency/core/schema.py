"""Data from files, checked against the types that their writers declare.

A wrong value gives one line: the file, the path of the key, the value, and what is expected. Keys
that the type does not have are ignored, as those of later versions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from ..errors import BundleError
from .reading import lines
from .text import shown

MAX_NAME, MAX_TEXT, MAX_ENTRIES = 1000, 1 << 16, 10_000
# Types of fields. pydantic checks them strictly: true is no number, and 3 is no text.
Name = Annotated[str, Field(max_length=MAX_NAME)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Count = Annotated[int, Field(ge=0, le=1 << 62)]
Integer = Annotated[int, Field(ge=-(1 << 64), le=1 << 64)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Duration = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]  # seconds
Number = float | Literal["inf", "-inf", "nan"]  # what is not finite is written as a text
Scalar = Text | Integer | Finite | bool | None
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "finite_number": "a finite number",
    "float_type": "a finite number",
    "int_type": "a whole number",
    "list_type": "a list",
    "none_required": "null",
    "string_type": "a text",
}
_LIMITS = {
    "greater_than_equal": "{ge:g} or more",
    "int_parsing_size": "a smaller number",
    "less_than_equal": "{le:g} or less",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "a text of the form {pattern}",
    "string_too_long": "a text of at most {max_length:,} characters",
    "too_long": "at most {max_length:,} entries",
}


@functools.cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def row_type(declared: type, *names: str) -> Any:
    """The type of JSON objects with some fields of a dataclass (by default all), each of which may
    be missing: rows that are written without empty fields."""
    kinds: dict[str, Any] = {"str": Text, "int": Count, "float": Number, "bool": bool}
    chosen = {
        field.name: kinds[str(field.type)]
        for field in fields(declared)
        if not names or field.name in names
    }
    make: Any = TypedDict
    return make(f"{declared.__name__}Row", chosen, total=False)


def check(data: Any, model: Any, place: str | Path) -> None:
    """Check parsed JSON against a type. Raises BundleError that begins with ``place``."""
    try:
        _adapter(model).validate_python(data, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # Lone surrogates are ugly, but text; printing replaces them.
        texts = {_steps(detail, data) for detail in errors if detail["type"] == "string_unicode"}
        errors = [detail for detail in errors if _steps(detail, data) not in texts]
        if errors:
            space = "  " if isinstance(place, Path) else " "
            raise BundleError(f"{place}{space}{_sentence(errors, data)}") from None


def checked_lines(path: Path, model: Any) -> Iterator[tuple[int, Any]]:
    """(line number, object) of a JSONL file whose lines must be of the type ``model``; only its
    fields are read. Raises BundleError with file and line."""
    adapter = _adapter(model)

    valid: Any = None

    def parse(line: bytes) -> Any:
        nonlocal valid
        try:
            valid = adapter.validate_json(line, strict=True)
        except ValidationError:
            valid = None
        return valid

    for number, row in lines(path, parse=parse):
        if row is not valid:  # parsed as usual, to tell what is wrong
            check(row, model, f"{path}:{number}  damaged:")
        yield number, row


def key_path(steps: Sequence[str | int]) -> str:
    """``settings.backends[0]`` for a path of keys and list positions."""
    words = "".join(
        f"[{step}]" if isinstance(step, int) else f".{shown(step).strip(chr(39))}" for step in steps
    )
    return words.removeprefix(".")


def _sentence(errors: Sequence[ErrorDetails], data: Any) -> str:
    """The first wrong value: where it is, what it is, and what is expected there."""
    first = _steps(errors[0], data)
    alike = [detail for detail in errors if _steps(detail, data) == first]
    if alike[0]["type"] == "missing":
        *steps, name = errors[0]["loc"]
        return f"{key_path(steps) or 'it'} has no {shown(str(name))}"
    expected = " or ".join(dict.fromkeys(_expected(detail) for detail in alike))
    value = shown(alike[0]["input"])
    return f"{key_path(first) or 'it'} is {value}; expected is {expected}"


def _steps(detail: ErrorDetails, data: Any) -> tuple[str | int, ...]:
    """The part of an error's location that leads to a value; alternatives of a type are left
    out."""
    steps: list[str | int] = []
    for step in detail["loc"]:
        try:
            data = data[step]
        except (KeyError, TypeError, IndexError):
            break
        steps.append(step)
    return tuple(steps)


def _expected(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind in _LIMITS:
        return _LIMITS[kind].format(**detail.get("ctx", {}))
    return _EXPECTED.get(kind) or f"otherwise ({detail['msg'][:80]})"
