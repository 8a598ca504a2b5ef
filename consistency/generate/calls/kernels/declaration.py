"""The declaration of a kernel, and helpers for those that follow our declaration of a public
function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .... import operators
from ....operators.declare import ErrorModel, Terms, accumulated, products
from ....operators.hooks import Args, Kwargs, Tensors
from ....operators.magnitudes import largest


@dataclass(frozen=True, slots=True)
class KernelDeclaration:
    """The declaration of an operator that torch's public functions write differently. ``rules`` is
    the declaration whose c and λ apply; ``kept`` is the number of leading outputs that are
    meaningful. ``substitute`` is called on a device that lacks the CPU's kernel."""

    error: ErrorModel
    rules: str = ""
    kept: int | None = None
    reference: Callable[..., Any] | None = None
    traits: frozenset[str] = frozenset()
    observe: Callable[..., Any] | None = None
    substitute: Callable[..., Any] | None = None


# Most of a gradient may be zero.
CONSTANT = frozenset({"constant"})


def as_declared(name: str, kept: int | None = None) -> KernelDeclaration:
    """As the public function ``name``, with the same arguments."""
    declared = operators.get(name)
    return KernelDeclaration(
        declared.error, name, kept, traits=declared.traits, observe=declared.observe
    )


def with_arguments(
    name: str, read: Callable[[Args, Kwargs], tuple[Args, Kwargs]]
) -> KernelDeclaration:
    """As the public function ``name`` called with the arguments that ``read`` makes of the
    kernel's."""
    declared: Any = operators.get(name).error
    return KernelDeclaration(
        accumulated(
            lambda a, k, o: declared.magnitude(*read(a, k), o),
            lambda a, k, o: declared.terms(*read(a, k), o),
        ),
        name,
    )


def summed(terms: Terms) -> ErrorModel:
    """Sums of products; gradients of half precision are rounded to it in between."""
    return products(terms, wide_accumulation=False)


def shaped(sizes: Sequence[torch.Tensor], outputs: Tensors) -> list[Any]:
    """Each S in the shape of its output, or its maximum where the numbers of elements differ."""
    return [
        s.reshape(o.shape) if s.numel() == o.numel() else largest(s)
        for s, o in zip(sizes, outputs, strict=False)
    ]
