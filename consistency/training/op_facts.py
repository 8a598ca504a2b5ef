"""Static facts about an ATen operator: whether it mutates, draws random numbers, or only moves
numbers. Cached."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import operators
from ..generate.calls import aten, kernels
from ..operators.catalog.aten import VIEWS_OF_BITS, base_name, moves_numbers
from ..operators.catalog.signature import Signature, signature
from ..operators.declare import Operator, call
from .trace import kinds

WIDER = {
    torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpFacts:
    """``view``: metadata only. ``left_out``: why it is not judged. ``moves``: nothing is
    rounded. ``elementwise``: elements are independent, and with ``strict`` the error is a few
    ulp at most. ``rules``: name and family for looking up tolerances. ``observe``: the unique
    part of a factorization, whose factors have free signs."""

    base: str
    view: bool
    random: bool
    left_out: str
    moves: bool
    elementwise: bool
    strict: bool
    rules: tuple[str, str]
    schema: Signature
    kernel: kernels.KernelDeclaration | None
    operator: Operator
    observe: Callable[..., Any] | None

    @property
    def writes(self) -> bool:
        return bool(self.schema.all_written)


@functools.lru_cache(maxsize=8192)
def facts_of(overload: Any) -> OpFacts:
    base, schema = base_name(overload), signature(overload)
    left_out = kinds.left_out(overload)
    # A convolution's kernel depends on its rank, and it writes nothing.
    kernel = kernels.kernel_named(base)
    declaration = kernel or aten.declared_as(base)
    exact = declaration is not None and declaration.error.kind == "exact"
    elementwise = kernels.is_pointwise(base) or (
        isinstance(declaration, Operator) and "elementwise" in declaration.traits
    )
    strict = elementwise and declaration is not None and declaration.error.kind == "rounded"
    declared = operators.registry().get(kernel.rules) if kernel is not None else declaration
    rules = declared.ruled_by if isinstance(declared, Operator) else (f"aten.{base}", "aten")
    view = left_out == kinds.VIEW or base in VIEWS_OF_BITS
    return OpFacts(
        base, view, schema.is_random, left_out, moves_numbers(base) or exact, elementwise,
        strict, rules, schema, kernel,
        _operator(overload, base),
        declaration.observe if declaration is not None and rules[1] == "linalg" else None,
    )  # fmt: skip


def _operator(overload: Any, base: str) -> Operator:
    """The overload as an operator for a backend's ``call``, named as in a trace."""
    return Operator(
        name=f"aten.{base}",
        family="aten",
        function=overload,
        sample=lambda d: call(),
        differentiable=False,
    )


def written(found: OpFacts, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that the call mutates."""
    return found.schema.arguments_named(found.schema.all_written, args, kwargs)
