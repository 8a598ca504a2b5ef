"""The declaration of an operator: how to call it, how to draw its arguments, how its error is
bounded, and which variants it has.

One :class:`Operator` value per operator, listed in a module per family. Nothing here imports
Hypothesis: a family's ``sample`` functions only use the :class:`Drawing` they receive, so that
worker processes can import them cheaply.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import torch

from .domains import (
    ADDED,
    COMPLEX,
    EVERY,
    EVERYWHERE,
    FINITE,
    FLOAT,
    FLOATS,
    HALF,
    INTEGERS,
    NUMERIC,
    POSITIVE,
    PROBABILITY,
    REAL,
    SQUARED,
    SUMMED,
    UNIT,
    Domain,
)
from .drawing import Call, Drawing, Sample, call
from .error_model import (
    EXACT,
    NORMWISE,
    ROUNDED,
    STRUCTURE,
    ErrorModel,
    accumulated,
    one,
    products,
    reduced,
)
from .hooks import Args, Kwargs, Magnitude, Tensors, Terms, hook

if TYPE_CHECKING:
    from ..core.model import Case

__all__ = [
    "ADDED", "COMPLEX", "EVERY", "EVERYWHERE", "EXACT", "EXTREMUM", "FINITE", "FLOAT", "FLOATS",
    "HALF", "INTEGERS", "NORMWISE", "NUMERIC", "POSITIVE", "PROBABILITY", "REAL",
    "REWRITTEN", "ROUNDED", "SQUARED", "STRUCTURE", "SUMMED", "UNCHECKED", "UNIT", "Args", "Call",
    "ComplexVariant", "Domain", "Drawing", "ErrorModel", "InPlaceVariant", "Kwargs",
    "Magnitude", "Operator", "Sample", "Tensors", "Terms", "accumulated", "call", "family",
    "hook", "one", "products", "reduced", "resolve",
]  # fmt: skip

# The trait of operators that pick the largest or smallest of numbers: hardware may leave NaN out of
# such a choice.
EXTREMUM = frozenset({"extremum"})
# The traits of torch's own operators when they are called below its public functions: their
# arguments may stand in another order than those of the declaration whose rules hold, and their
# kernels need not check them.
_CHANNELS_LAST = frozenset({"convolution", "pooling", "normalization", "interpolate"})
REWRITTEN, UNCHECKED = "rewritten", "unchecked"


@dataclass(frozen=True, kw_only=True)
class ComplexVariant:
    """The differences for complex numbers; None means as for real ones.

    Both parts are drawn, and S is made of moduli (:meth:`.ErrorModel.of`).
    """

    sample: Sample | None = None
    error: ErrorModel | None = None


@dataclass(frozen=True)
class InPlaceVariant:
    """The form that writes into its first argument; None means as in the operator.

    ``sample`` must draw that argument with ``overlap=False``, in the shape and dtype of the result.
    """

    name: str
    sample: Sample | None = None
    _: KW_ONLY
    function: Callable[..., Any] | None = None
    error: ErrorModel | None = None
    dtypes: tuple[str, ...] | None = None
    traits: frozenset[str] | None = None
    complex: bool | ComplexVariant | None = None


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One declaration. ``name`` is PyTorch's OpInfo name; in-place forms add the trailing
    underscore of the method.

    ``function`` is the callable; left out, it is found by the name under ``torch``. ``sample``
    draws arguments. ``traits``: ``elementwise``, ``linear``, ``ties``, ``extremum`` (picks the
    largest or smallest), ``discontinuous``, ``random``, ``cast`` (the first argument in another
    dtype), ``through-sums`` (gradients made of intermediates that are sums),
    ``sums-cotangents`` (gradients that hold the sum of all cotangents of a row), ``chained``
    (products of three factors or more, whose elements share products of some of them),
    ``inplace``, ``view``, ``constant`` (a constant or mostly zero result is normal: no vacuity
    check), ``own-format`` (the answer belongs to a number format, so that the reference is computed
    in the case's own), ``own-integers`` (the same of integers alone: the answer may be the end of
    their range),
    ``any-signs`` (no sign or phase of a factor within it matters) …
    ``observe`` turns ``(float64 args, kwargs, outputs)`` into the quantities that are unique and so
    can be compared: the value at an argmax, U·S·Vᴴ for an SVD. ``observe_gradients`` does so for
    gradients, such as their sums over tied elements. ``alternatives`` gives further admissible
    outputs for discontinuous operators. ``is_defined`` tells of ``(args, kwargs)`` whether no
    rounding decides what the result is, such as which pixel is the nearest. ``edges`` are the
    positions of tensors at whose edges the gradient steps: a sampling point that crosses into the
    next pixel. ``ranges`` are intervals of an argument (position, low, high) that a rule may name.
    ``mutates`` are the positions of tensors
    (in materializing order) written in place. ``reference`` replaces the callable for the float64
    run. ``cases`` gives the cases of ``(dtype, examples, seed)`` where they are not drawn with
    ``sample`` (:mod:`consistency.generate.calls.opinfo`). ``form_of`` is the operator of which this
    is another form (a method, ``out=``): the rules of that one hold here; ``leading`` counts the
    tensors that stand before that one's own arguments. ``derivative_of`` is the operator
    whose derivative this one returns. ``whole`` are the positions of floating tensors that hold
    whole numbers, such as a degree, and so have no neighbors that an ulp away would mean nearly the
    same.

    The variants, each judged as an operator of its own (:mod:`.variants`): ``complex`` the complex
    dtypes, ``inplace`` the form that writes into its first argument, ``out`` the one that writes
    into a given tensor, ``method`` the method of Tensor. ``aten`` is ATen's name for the operator
    where it is another one. ``unspecified_aliasing`` says why torch does not promise whether the
    result is a view of an argument, a copy or the argument itself; it is not compared then.
    """

    name: str
    family: str
    sample: Sample
    function: Callable[..., Any] | None = None
    error: ErrorModel = ROUNDED
    dtypes: tuple[str, ...] = FLOATS
    differentiable: bool = True
    traits: frozenset[str] = frozenset()
    observe: Callable[..., Any] | None = None
    observe_gradients: Callable[..., Any] | None = None
    alternatives: Callable[..., Any] | None = None
    is_defined: Callable[..., bool] | None = None
    edges: tuple[int, ...] = ()
    ranges: tuple[tuple[int, float, float], ...] = ()
    mutates: tuple[int, ...] = ()
    reference: Callable[..., Any] | None = None
    differentiable_inputs: tuple[int, ...] | None = None
    cases: Callable[[str, int, int], list[Case]] | None = None
    form_of: Operator | None = None
    derivative_of: Operator | None = None
    leading: int = 0
    whole: tuple[int, ...] = ()
    complex: bool | ComplexVariant = False
    inplace: str | InPlaceVariant = ""
    out: bool = False
    method: bool = False
    aten: str = ""
    unspecified_aliasing: str = ""

    @property
    def ruled_by(self) -> tuple[str, str]:
        """Name and family by which tolerances are looked up."""
        return self.form_of.ruled_by if self.form_of is not None else (self.name, self.family)

    @functools.cached_property
    def callable(self) -> Callable[..., Any] | None:
        """The function to call, or None if this version of torch lacks it."""
        return self.function if self.function is not None else resolve(self.name)

    @property
    def leaves(self) -> bool | tuple[int, ...]:
        """The tensors whose gradients are computed, as :meth:`Materials.build` takes it."""
        return True if self.differentiable_inputs is None else self.differentiable_inputs

    @property
    def reference_dtype(self) -> str | None:
        """The dtype that the reference is computed in; None: the case's own."""
        return None if "own-format" in self.traits else "float64"

    @property
    def directions(self) -> tuple[str, ...]:
        return ("forward", "backward") if self.differentiable else ("forward",)

    @property
    def keeps_memory_format(self) -> bool:
        """Whether the result of channels_last inputs is channels_last, as torch's documentation of
        memory formats says."""
        return "elementwise" in self.traits or self.ruled_by[1] in _CHANNELS_LAST

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.callable is None:
            raise NotImplementedError(f"torch {torch.__version__} has no {self.name}")
        return self.callable(*args, **kwargs)


def resolve(name: str) -> Callable[..., Any] | None:
    """``torch.nn.functional.gelu`` for ``nn.functional.gelu``, or a method of Tensor; None if there
    is none. By attributes, which torch.compile traces, unlike imports."""
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None and "." not in name:
        function = getattr(torch.Tensor, name, None)
    return function if callable(function) else None


def family(name: str, *, prefix: str = "", **defaults: Any) -> Callable[..., Operator]:
    """What declares the operators of a family: ``op(name, sample, error, dtypes, …)``. Fields of
    :class:`Operator` that are not given are ``defaults``; names begin with ``prefix``."""

    def op(
        operator: str,
        sample: Sample,
        error: ErrorModel | None = None,
        dtypes: tuple[str, ...] | None = None,
        **fields: Any,
    ) -> Operator:
        overrides = {"error": error, "dtypes": dtypes}
        fields |= {field: value for field, value in overrides.items() if value is not None}
        return Operator(name=prefix + operator, family=name, sample=sample, **defaults | fields)

    return op
