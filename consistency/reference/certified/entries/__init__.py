"""Definitions of torch's ATen operators by nodes, one entry per operator.

An entry is a function whose parameters have the names of torch's schema (``self``, ``other``,
``alpha`` …); it receives nodes in place of tensors and returns the node of the result, or a tuple
of several. One entry serves all overloads, the in-place and the ``out=`` form. A parameter called
``result`` receives the call's actual result, for its shape and dtype; its numbers are never read.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..balls import Unsure

Entry = Callable[..., Any]
ENTRIES: dict[str, Entry] = {}
# Arguments that determine dtype, layout or memory of results; these are read from the results.
_IGNORED = frozenset(
    [
        "dtype",
        "layout",
        "device",
        "pin_memory",
        "memory_format",
        "non_blocking",
        "copy",
        "generator",
        "out",
        "output_dtype",
        "out_int32",
        "dtype_opt",
        "part",  # extra arguments of operators that address memory (as_strided…)
        "places",
        "own_places",
    ]
)
_OUT = re.compile(r"out\d*")


def entry(*names: str) -> Callable[[Entry], Entry]:
    """Register a function under the names of ATen operators, without overloads."""

    def enter(function: Entry) -> Entry:
        for name in names:
            assert name not in ENTRIES, f"{name} is entered twice"
            ENTRIES[name] = function
        return function

    return enter


@functools.cache
def load() -> None:
    """Import every module of this folder, which registers its entries."""
    for family in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{family.name}")


def lookup(name: str) -> Callable[[Mapping[str, Any], Any], Any] | None:
    """The entry of an ATen operator, called with (arguments by name, the call's result); None if
    there is none."""
    load()
    entry = (
        ENTRIES.get(name)
        or ENTRIES.get(name.removesuffix("_"))
        or ENTRIES.get(name.removesuffix("_copy"))
    )
    if entry is not None:
        return functools.partial(call_entry, entry)
    if name.startswith("_foreach_"):
        from ..foreach import each_of

        return each_of(name.removeprefix("_foreach_").removesuffix("_"))
    return None


def call_entry(function: Entry, given: Mapping[str, Any], result: Any) -> Any:
    parameters = parameters_of(function)
    arguments = {}
    for name, value in given.items():
        if name in parameters:
            arguments[name] = value
        elif (
            name not in _IGNORED
            and not (value is None or value is False)
            and not _OUT.fullmatch(name)
        ):
            raise Unsure(f"argument {name} = {value!r:.60}")
    if "result" in parameters:
        arguments["result"] = result
    return function(**arguments)


@functools.cache
def parameters_of(function: Entry) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)
