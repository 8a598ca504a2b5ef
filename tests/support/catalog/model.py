"""The rows of the catalog, and the backend that plays one: torch's own result on the CPU, with a
deed around it.

A ``Deed`` takes a :class:`Call` and returns what the operator returns. Rows hold a *maker* of
deeds, because some deeds remember earlier calls and every run deserves a fresh one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import consistency
from consistency.core.model import Outcome
from consistency.generate.materialize import Adjust, Materials

Deed = Callable[["Call"], Any]
Maker = Callable[[], Deed]
Listener = Callable[[Materials, str, Outcome], None]
BOTH = ("forward", "backward")
CAUSES = (
    "tf32-inputs", "bfloat16-inputs", "float16-inputs", "bfloat16x3-inputs",
    "float32-instead-of-float64", "float16-accumulator",
    "bfloat16-accumulator", "truncating-accumulator", "flushed-subnormals", "offset-ignored",
    "strides-ignored", "int64-truncated", "float32-integers",
    "terms-dropped", "argument-ignored", "one-pass-variance", "no-max-shift", "eps-misplaced",
    "zero", "scaled", "offset-added",
    "shifted", "transposed", "flipped", "stale", "nan-dropped", "nan-sorted-first",
    "early-overflow", "saturated",
    "nondeterministic", "input-modified", "depends-on-layout", "depends-on-batch",
    "depends-on-position", "approximation",
    "negated", "another-of-equals",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call of an operator, as a backend receives it."""

    operator: consistency.Operator
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def tracked(self) -> bool:
        """Whether gradients are asked for."""
        return any(
            isinstance(item, Tensor) and item.requires_grad
            for item in leaves((self.args, dict(self.kwargs)))
        )

    def run(self) -> Any:
        """Torch's own result."""
        return self.operator(*self.args, **self.kwargs)

    def with_arg(self, position: int, value: Any) -> Call:
        """The call with another argument at ``position`` (negative positions count from the
        end)."""
        position %= len(self.args)
        return replace(self, args=(*self.args[:position], value, *self.args[position + 1 :]))

    def each(self, change: Callable[[Tensor], Tensor]) -> Call:
        """The call with every tensor changed, those in lists and keyword arguments, too."""
        return replace(self, args=deep(self.args, change), kwargs=deep(dict(self.kwargs), change))

    def where(self, change: Callable[[Tensor], Tensor], positions: Sequence[int] | None) -> Call:
        """The call with the tensors at ``positions`` changed; None for all of them."""
        if positions is None:
            return self.each(change)
        chosen = [
            position % len(self.args)
            for position in positions
            if -len(self.args) <= position < len(self.args)
        ]
        args = tuple(
            change(a) if i in chosen and isinstance(a, Tensor) else a
            for i, a in enumerate(self.args)
        )
        return replace(self, args=args)

    def given(self, name: str, position: int, default: Any) -> Any:
        """The argument of that name or position, or ``default``."""
        return self.kwargs.get(name, self.args[position] if len(self.args) > position else default)


def deep(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """``value`` with every tensor in tuples, lists and mappings changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)([deep(item, change) for item in value])
    if isinstance(value, dict):
        return {key: deep(item, change) for key, item in value.items()}
    return value


def leaves(value: Any) -> Iterator[Any]:
    """What lies in tuples, lists and mappings."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield value


class Played(consistency.Backend):
    """The CPU with a deed. ``listener`` is told every outcome of a case as it was drawn (not of
    second looks at it).

    Deeds are about numbers: most are formulas, which promise neither views nor memory formats.
    """

    keeps_contract = False

    def __init__(self, name: str, deed: Deed) -> None:
        self.name, self.deed = name, deed
        self.listener: Listener | None = None

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.deed(Call(operator, tuple(args), dict(kwargs)))

    def run(
        self,
        operator: consistency.Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        outcome = super().run(operator, materials, direction, dtype, adjust)
        if self.listener is not None and dtype is None and adjust is None:
            self.listener(materials, direction, outcome)
        return outcome


@dataclass(frozen=True)
class Row:
    """What faults and healthy backends have in common. ``prefix`` begins the backend's name, by
    which policies are found."""

    what: str
    operator: str
    make: Maker
    dtype: str = "float32"
    directions: tuple[str, ...] = ("forward",)
    prefix: str = "played"

    @property
    def name(self) -> str:
        """Unique in the catalog, and the name of the backend."""
        way = "" if self.directions == ("forward",) else " " + "+".join(self.directions)
        return f"{self.prefix}:{self.what} / {self.operator} {self.dtype}{way}"

    def backend(self) -> Played:
        """A fresh backend that plays this row."""
        return Played(self.name, self.make())


@dataclass(frozen=True)
class Fault(Row):
    """A faulty backend. ``cause`` is the id that attribution should find, None where nothing has a
    name; ``a|b``: either is right.

    ``decidable``: whether some cases of the operator can tell it from rounding at all; what cannot
    be told must not be counted as missed. ``why`` says why not. ``raises``: the fault is that calls
    raise; any other row that raises is badly planted.
    """

    cause: str | None = None
    decidable: bool = True
    why: str = ""
    raises: bool = False

    @property
    def causes(self) -> tuple[str, ...]:
        """The ids that would be right; none where nothing has a name."""
        return tuple(self.cause.split("|")) if self.cause else ()


@dataclass(frozen=True)
class Healthy(Row):
    """A backend that computes in another, sound way. ``verdicts``: when given, the only ones it may
    get."""

    verdicts: frozenset[str] = frozenset()


def formula(function: Callable[..., Any]) -> Maker:
    """A deed that calls ``function`` in place of the operator, with the operator's own
    arguments."""
    return lambda: lambda call: function(*call.args, **call.kwargs)


def constantly(deed: Deed) -> Maker:
    """A maker for a deed that remembers nothing."""
    return lambda: deed


class Straight(torch.autograd.Function):
    """Other numbers going forward, the same gradient going back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def straight(x: Tensor, y: Tensor) -> Tensor:
    """``y`` with the gradient history of ``x``."""
    return Straight.apply(x, y.detach()) if x.requires_grad else y


def one_of(result: Any, change: Callable[[Tensor], Any], which: int = 0) -> Any:
    """A result with one of its tensors changed."""
    if isinstance(result, Tensor):
        return change(result) if which == 0 else result
    if (
        isinstance(result, (tuple, list))
        and len(result) > which
        and isinstance(result[which], Tensor)
    ):
        items = list(result)
        items[which] = change(items[which])
        return tuple(items)
    return result
