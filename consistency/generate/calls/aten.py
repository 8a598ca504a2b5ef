"""The fourth source of cases: a program's calls of torch's own operators, ``aten/addmm.default``,
as a trace captures them.

The name comes from a case, which may be untrusted, so it is looked up among the overloads that
torch registered under ``aten``, never evaluated; operators that read files, free or resize storage,
or only control torch are not called. Our declaration of the same operator also applies to the call
if the arguments have the same order; :mod:`.kernels` declares common ones that torch's functions
write differently; all others are judged by their sensitivity to their inputs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ... import operators
from ...core import dtypes, recipe
from ...core.case_source import ATEN, parse_source
from ...core.model import Case
from ...errors import UsageError
from ...operators.catalog.aten import (
    CONVERSIONS,
    base_name,
    has_public_order,
    is_public,
    overload_named,
    public_functions,
    public_name,
)
from ...operators.catalog.signature import signature
from ...operators.declare import REWRITTEN, UNCHECKED, Operator, accumulated, call, one
from .generic_error import BY_SENSITIVITY, GENERIC, longest_reduction
from .kernels import KernelDeclaration, kernel_of
from .torch_functions import NAMED


def source_of(overload: Any) -> str:
    """``aten/addmm.default``: the source of a case that calls this overload."""
    return f"{ATEN}/{overload.__name__}"


def title_of(overload: Any) -> str:
    """``aten.addmm``: the display name of such a case."""
    return f"{ATEN}.{base_name(overload)}"


def operator_of(case: Case) -> Operator:
    """The operator of a case with the source ``aten/…``. Raises UsageError for a name that may not
    be called."""
    overload = overload_named(parse_source(case.source).name)
    base = base_name(overload)
    if case.operator != f"{ATEN}.{base}":
        raise UsageError(
            f"a case of {case.source!r:.60} is called {ATEN}.{base}, not {case.operator!r:.40}"
        )
    kernel = kernel_of(base, case)
    operator = _operator(
        overload,
        case.operator,
        written(overload, case.args, case.kwargs),
        kernel,
        _cast_to(base, case),
    )
    if (
        operator.error.kind != "exact"
        and (operator.error.kind == "rounded" or "elementwise" in operator.traits)
        and _inexact(case)
    ):
        # Declarations are about numbers that the format holds. These are rounded first, and so is
        # what they are multiplied with.
        return replace(
            operator,
            family=GENERIC,
            form_of=None,
            error=accumulated("pointwise", one, wide_accumulation=False),
        )
    return operator


def _inexact(case: Case) -> bool:
    """Whether a number argument is not exact in the tensors' format, such as step sizes and decay
    rates, or is a factor of one term of a sum, whose product is rounded."""
    factor = case.kwargs.get("alpha", case.kwargs.get("value", 1))
    if (
        isinstance(factor, (int, float))
        and math.isfinite(factor)
        and math.frexp(factor)[0] not in (0.0, 0.5, -0.5)
    ):
        return True
    dtype = dtypes.TORCH[dtypes.PARTS.get(case.dtype, case.dtype)]
    if not dtype.is_floating_point or dtype == torch.float64:
        return False
    single = [
        t
        for t in case.tensors
        if isinstance(t, recipe.Literal) and not t.shape and t.dtype in dtypes.FORMATS
    ]
    if any(
        dtypes.FORMATS[t.dtype].precision > dtypes.FORMATS[dtypes.name_of(dtype)].precision
        for t in single
    ):
        return True
    numbers = [
        value
        for value in (*case.args, *case.kwargs.values())
        if isinstance(value, float) and math.isfinite(value)
    ]
    return any(
        float(torch.tensor(value, dtype=torch.float64).to(dtype)) != value for value in numbers
    )


def written(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
    """The positions, in the order of materializing, of the tensors that the call writes to."""
    schema, positions, position = signature(overload), list[int](), 0
    # A case's keyword arguments are materialized in the order of their names.
    pairs = [
        *zip((p.name for p in schema.parameters), args, strict=False),
        *sorted(kwargs.items()),
    ]
    for name, value in pairs:
        count = sum(1 for _ in recipe.tensors(value))
        if name in schema.all_written:
            positions += range(position, position + count)
        position += count
    return tuple(positions)


@functools.lru_cache(maxsize=4096)
def _operator(
    overload: Any, title: str, writes: tuple[int, ...], kernel: KernelDeclaration | None, cast: str
) -> Operator:
    base = base_name(overload)
    traits = frozenset({NAMED}) | (frozenset({"inplace"}) if base.endswith("_") else frozenset())
    traits |= frozenset() if is_public(base) else frozenset({UNCHECKED})
    common: dict[str, Any] = {
        "name": title, "function": overload, "differentiable": False, "mutates": writes,
        "reference": None,
        "sample": lambda d: call(), "traits": traits,
    }  # fmt: skip
    if kernel is not None:
        rules = operators.registry().get(kernel.rules)
        if kernel.kept is not None:
            common["function"] = functools.partial(
                leading, overload, kernel.kept, kernel.substitute
            )
        common["reference"] = kernel.reference
        common["traits"] |= (
            {REWRITTEN} | kernel.traits | (rules.traits if rules is not None else frozenset())
        )
        family = rules.family if rules is not None else GENERIC
        return Operator(
            family=family, error=kernel.error, observe=kernel.observe, form_of=rules, **common
        )
    declared = operators.registry().get(cast) if cast else declared_as(base)
    if declared is not None:
        common["traits"] |= declared.traits | (set() if has_public_order(base) else {REWRITTEN})
        common["error"] = replace(
            declared.error,
            magnitude=_guarded(declared.error.magnitude),
            terms=_guarded(declared.error.terms),
        )
        common |= {
            "differentiable_inputs": None,
            "cases": None,
            "observe_gradients": None,
            "form_of": declared,
        }
        return replace(declared, **common)
    return Operator(
        family=GENERIC, error=replace(BY_SENSITIVITY, terms=longest_reduction), **common
    )


@functools.cache
def _guarded(hook: Any) -> Any:
    """An error model's function that raises only TypeError for unexpected arguments.

    The engine then judges the call by its sensitivity.
    """
    if not callable(hook):
        return hook

    def within_domain(args: Any, kwargs: Any, outputs: Any) -> Any:
        try:
            return hook(args, kwargs, outputs)
        except (RuntimeError, ValueError) as error:
            raise TypeError(str(error)) from error

    return within_domain


def changed_safely(before: Case, after: Case) -> bool:
    """Whether two cases of a kernel that checks nothing differ in floating numbers and words only,
    not in sizes or positions."""
    return _alike(list(before.args), list(after.args)) and _alike(
        dict(before.kwargs), dict(after.kwargs)
    )


def _alike(before: recipe.Arg, after: recipe.Arg) -> bool:
    match before, after:
        case recipe.Literal(), recipe.Literal():
            same = before.dtype == after.dtype and before.shape == after.shape
            return same and (dtypes.floats(before.dtype) or before == after)
        case ((list() | tuple()), (list() | tuple())):
            return len(before) == len(after) and all(map(_alike, before, after))
        case dict(), dict():
            return before.keys() == after.keys() and all(
                _alike(before[name], after[name]) for name in before
            )
        case (float(), float()) | (str(), str()):
            return True
    return type(before) is type(after) and bool(before == after)


def leading(
    overload: Any, count: int, substitute: Callable[..., Any] | None, *args: Any, **kwargs: Any
) -> Any:
    """The first ``count`` outputs of an operator; the others are scratch space of its kernels.

    ``substitute`` computes the same on devices without such a kernel, from the operators that they
    have.
    """
    if substitute is not None and any(
        isinstance(arg, torch.Tensor) and arg.device.type != "cpu" for arg in args
    ):
        return tuple(substitute(*args, **kwargs))[:count]
    return overload(*args, **kwargs)[:count]


def declared_as(base: str) -> Operator | None:
    """Our declaration of the function that aten calls ``base``, if one takes the same arguments in
    the same order."""
    declared = operators.registry()
    name = base if base in declared else public_name(base)
    match = declared.get(name)
    if match is None and base.endswith("_") and not base.endswith("__"):
        # In place, what is written is what the plain form returns; hooks that count the outputs
        # would find one more.
        match = declared.get(public_name(base[:-1]))
        if match is not None and (
            match.observe is not None
            or match.alternatives is not None
            or callable(match.error.magnitude)
        ):
            return None
    if match is None or "random" in match.traits or match.form_of is not None:
        return None
    if name.startswith("nn.functional."):
        return match
    return match if match.callable in public_functions(base) else None


def _cast_to(base: str, case: Case) -> str:
    """The conversion that ``_to_copy`` makes, by the name of its declaration; a copy without one is
    ``clone``."""
    if base not in ("_to_copy", "to"):
        return ""
    requested = case.kwargs.get("dtype", case.args[1] if len(case.args) > 1 else None)
    return (
        CONVERSIONS.get(requested.name, "clone") if isinstance(requested, recipe.DType) else "clone"
    )
