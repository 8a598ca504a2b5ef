"""The second source of cases: the sample inputs of PyTorch's own operator database, for arguments
that ours do not cover.

The database (``torch.testing._internal``) is private and may change: a failure affects only its own
operator, with a reason.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from ... import operators
from ...core import dtypes
from ...core.trees import flatten
from ...errors import UsageError
from ...operators.declare import EXACT, ErrorModel, Operator, call
from ..materialize import prepare
from .generic_error import BY_SENSITIVITY, GENERIC
from .kernels import kernel_named
from .opinfo_samples import NAME as NAME
from .opinfo_samples import sample_cases

_DECLARED_FIELDS = (
    "family",
    "error",
    "traits",
    "observe",
    "observe_gradients",
    "alternatives",
    "ranges",
)
_FROZEN = "__allow_nonbracketed_mutation_flag"
_PACKAGES = {"expecttest": "expecttest", "packaging": "packaging", "hypothesis": "hypothesis"}


@functools.cache
def database() -> tuple[Any, ...]:
    """The OpInfo entries of the installed torch. Raises UsageError with the remedy if they cannot
    be imported."""
    arguments, sys.argv = (
        sys.argv,
        sys.argv[:1],
    )  # on import the private modules parse the command line of the program
    before = torch.get_default_dtype(), torch.get_rng_state(), bool(torch.backends.flags_frozen())  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        missing = _PACKAGES.get(str(error.name or ""))
        remedy = f"pip install {missing}" if missing else "leave --source out"
        raise UsageError(
            f"PyTorch's operator database cannot be imported: {error}; {remedy}"
        ) from None
    except (Exception, SystemExit) as error:  # private code of any version
        text = f"{type(error).__name__}: {str(error)[:120]}"
        raise UsageError(
            f"PyTorch's operator database cannot be imported ({text}); leave --source out"
        ) from None
    finally:
        sys.argv = arguments
        torch.set_default_dtype(before[0])
        torch.set_rng_state(before[1])
        # The import forbids to set the switches of oneDNN and its like, which our backends do;
        # there is no function to allow it.
        torch.backends.flags_frozen.__globals__[_FROZEN] = not before[2]
    return tuple(op_db)


def names() -> tuple[str, ...]:
    """The names in PyTorch's operator database, which takes a second to load; none where it needs
    a package that is absent."""
    try:
        return tuple(str(item.name) for item in database())
    except UsageError:
        return ()


def select(patterns: Iterable[str | Operator] | None = None) -> list[Operator]:
    """The database's operators by name, glob or family, every variant of each. Raises
    UsageError."""
    entries: dict[str, list[Any]] = {}
    for entry in database():
        entries.setdefault(entry.name, []).append(entry)
    first = {name: _plain(variants[0]) for name, variants in entries.items()}
    chosen = operators.select(patterns, first)
    return [
        variants
        for o in chosen
        for variants in ([_operator(e) for e in entries[o.name]] if o.name in entries else [o])
    ]


def variant(operator: Operator) -> str:
    """The database's variant of that name; empty for its first, and for operators from
    elsewhere."""
    cases = operator.cases
    return (
        str(cases.args[0].variant_test_name)
        if isinstance(cases, functools.partial) and cases.func is sample_cases
        else ""
    )


def operator_named(name: str, variant: str) -> Operator:
    """The database's operator of that name in that variant. Raises UsageError."""
    for entry in database():
        if entry.name == name and entry.variant_test_name == variant:
            return _operator(entry)
    title = f"{name} {variant}".strip()
    raise UsageError(f"torch {torch.__version__} has no {title!r} in its operator database")


def _plain(entry: Any) -> Operator:
    """What is known without looking at a sample: our declaration with the database's callable, or a
    generic one."""
    declared = operators.registry().get(entry.name)
    offered = {dtypes.name_of(dtype) for dtype in entry.supported_dtypes("cpu")}
    source = Operator(
        name=entry.name, family=GENERIC, sample=lambda d: call(), function=entry.op,
        error=BY_SENSITIVITY,
        dtypes=tuple(name for name in dtypes.ALL if name in offered),
        differentiable=bool(entry.supports_autograd),
        cases=functools.partial(sample_cases, entry),
    )  # fmt: skip
    if declared is None:
        kernel = kernel_named(entry.name)  # native_layer_norm and its like
        if kernel is None or not kernel.rules:
            return source
        return replace(source, error=kernel.error, form_of=operators.get(kernel.rules))
    fields = {name: getattr(declared, name) for name in _DECLARED_FIELDS}
    # Of other dtypes our declaration says nothing.
    fields["dtypes"] = tuple(name for name in source.dtypes if name in declared.dtypes)
    return replace(
        source, **fields, differentiable=source.differentiable and declared.differentiable
    )


@functools.cache
def _by_name(name: str, variant: str) -> Operator:
    entry = next(e for e in database() if (e.name, e.variant_test_name) == (name, variant))
    operator = _plain(entry)
    if operator.family == GENERIC and _only_moves(entry, operator):
        return replace(operator, error=ErrorModel("exact", backward=EXACT.backward))
    return operator


def _operator(entry: Any) -> Operator:
    return _by_name(entry.name, entry.variant_test_name)


def _only_moves(entry: Any, operator: Operator) -> bool:
    """Whether every number of every result is one of the inputs: then nothing is computed, and
    nothing may differ."""
    checked = 0
    with contextlib.suppress(Exception):
        for case in sample_cases(entry, "float32", 8, 0):
            arguments = prepare(case).build("float64")
            inputs = torch.cat([t.reshape(-1).double() for t in arguments.tensors])
            for result in flatten(operator(*arguments.args, **arguments.kwargs)):
                if not isinstance(result, torch.Tensor) or not result.numel():
                    continue
                if result.dtype != torch.float64 or not bool(torch.isin(result, inputs).all()):
                    return False
                checked += result.numel()
        return checked > 0
    return False
