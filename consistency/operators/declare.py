"""What is declared of an operator: how to call it, how to draw its arguments, and how its error is
bounded.

One :class:`Operator` value per operator, listed in a module per family. Nothing here imports
Hypothesis: a family's ``sample`` functions only talk to the :class:`Drawing` they are handed, so a
worker process can import them cheaply.

The error model names the terms of ``budget = c·ulp(ref) + λ·G(n)·u·S + floor``; the numbers c and λ
live in tolerances.yaml.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..core import recipe

if TYPE_CHECKING:
    from ..core.model import Case

Magnitude = Callable[[tuple[Any, ...], dict[str, Any], tuple[torch.Tensor, ...]], Any]
Terms = Callable[[tuple[Any, ...], dict[str, Any], tuple[torch.Tensor, ...]], float]

FLOAT = ("float32", "float64")
HALF = ("float16", "bfloat16")
FLOATS = (*FLOAT, *HALF)
INTEGERS = ("int32", "int64")
NUMERIC = (*FLOATS, *INTEGERS)
EVERY = (*NUMERIC, "bool")
COMPLEX = ("complex64", "complex128")

EVERYWHERE = (
    "0",
    "-0",
    "1",
    "-1",
    "nan",
    "-nan",
    "inf",
    "-inf",
    "tiny",
    "subnormal",
    "max",
    "-max",
)
# The trait of operators that pick the largest or smallest of numbers: hardware may leave NaN out of
# such a choice.
EXTREMUM = frozenset({"extremum"})
# The traits of torch's own operators when they are called below its public functions: their
# arguments may stand in another order than those of the declaration whose rules hold, and their
# kernels need not check them.
REWRITTEN, UNCHECKED = "rewritten", "unchecked"
FINITE = ("0", "-0", "1", "-1", "tiny", "subnormal")


@dataclass(frozen=True, slots=True)
class Domain:
    """Where an argument lives, and what is worth trying there.

    Numbers stay within [low, high]. ``points`` are boundaries of behaviour (overflow thresholds,
    branch points), ``specials`` the tokens of :data:`consistency.generate.value_classes.SPECIAL`
    that mean something, ``wide`` the binades 2**a … 2**b of magnitudes, ``sums`` adds fillings that
    stress summation (cancelling, large mean, exact integers).
    """

    low: float = -math.inf
    high: float = math.inf
    points: tuple[float, ...] = ()
    specials: tuple[str, ...] = ()
    wide: tuple[int, int] | None = None
    sums: bool = False
    tiny: bool = False


REAL = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)
SUMMED = Domain(wide=(-10, 10), sums=True)
UNIT = Domain(-1.0, 1.0)
POSITIVE = Domain(2.0**-10, 2.0**10, wide=(-10, 9))
PROBABILITY = Domain(2.0**-8, 1.0 - 2.0**-8)


class Drawing(Protocol):
    """What a ``sample`` function may ask for; :class:`consistency.generate.strategies.Draw` is the
    implementation and documents it.
    """

    dtype: str

    @property
    def complex(self) -> bool: ...
    @property
    def floating(self) -> bool: ...
    def size(self, low: int = 1, high: int = 64) -> int: ...
    def shape(
        self, low: int = 0, high: int = 4, *, least: int = 1, most: int = 64, elements: int = 4096
    ) -> tuple[int, ...]: ...
    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]: ...
    def choice(self, *options: Any) -> Any: ...
    def flag(self) -> bool: ...
    def integer(self, low: int, high: int) -> int: ...
    def number(self, low: float, high: float) -> float: ...
    def dim(self, shape: Sequence[int]) -> int: ...
    def dims(self, shape: Sequence[int], *, least: int = 1) -> tuple[int, ...]: ...
    def tensor(
        self,
        shape: Sequence[int],
        domain: Domain = REAL,
        *,
        dtype: str | None = None,
        values: tuple[Any, ...] | None = None,
        layout: bool = True,
        overlap: bool = True,
    ) -> recipe.TensorRecipe: ...
    def index(
        self, shape: Sequence[int], size: int, *, negative: bool = False, distinct: bool = False
    ) -> recipe.TensorRecipe: ...


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of one call, as recipes."""

    args: tuple[recipe.Arg, ...]
    kwargs: dict[str, recipe.Arg]


def call(*args: recipe.Arg, **kwargs: recipe.Arg) -> Call:
    """What a ``sample`` function returns: the arguments exactly as a user would write them."""
    return Call(args, kwargs)


Sample = Callable[[Any], Call]


def one(args: tuple[Any, ...], kwargs: dict[str, Any], outputs: tuple[torch.Tensor, ...]) -> float:
    """n = 1: nothing is accumulated."""
    return 1.0


def reduced(
    args: tuple[Any, ...], kwargs: dict[str, Any], outputs: tuple[torch.Tensor, ...]
) -> float:
    """n of a reduction: input elements per output element."""
    inputs, results = int(args[0].numel()), outputs[0].numel()
    return max(inputs / max(results, 1), 1.0)


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """How large a healthy error can be.

    ``kind``: ``exact`` (any difference counts), ``rounded`` (a few ulp of the result),
    ``accumulated`` (a sum of ``terms`` numbers of total magnitude S), ``structure`` (values are not
    defined, only shape and dtype).

    ``magnitude`` is S: ``""`` (none), ``"products"`` (the operator on absolute values, of tensors
    and of float arguments), ``"output"`` (\\|ref\\|), ``"pointwise"`` (Σ \\|xᵢ·∂f/∂xᵢ\\|,
    elementwise operators only), ``"normwise"`` (the largest response of any output element to
    relative perturbations of the inputs' norms, plus max \\|ref\\|), or a function of the float64
    ``(args, kwargs, outputs)`` that returns one tensor per output (or one for all). ``growth`` is
    G: ``sqrt`` for sums in blocks or trees, ``linear`` for sequential scans and long recurrences.
    ``backward`` is S for gradients, in the same words. ``integers_exact``: integer-valued inputs
    give the exact answer. ``wide_accumulation``: float16 and bfloat16 results are accumulated in
    float32 and rounded once; set it to False for operators that are composed of others and so round
    their intermediates to the half format (gradients always are). ``in_complex`` is the model for
    complex numbers where it is another kind: an absolute value is rounded there. S is always made
    of moduli, and bounds the error of either part: where numbers are multiplied, a part's error is
    relative to the whole number.
    """

    kind: str = "rounded"
    magnitude: str | Magnitude = ""
    terms: Terms = one
    growth: str = "sqrt"
    backward: str | Magnitude = "normwise"
    integers_exact: bool = False
    wide_accumulation: bool = True
    in_complex: ErrorModel | None = None

    def of(self, dtype: str) -> ErrorModel:
        """The model that holds in ``dtype``: among complex numbers functions err relative to the
        modulus of their result."""
        if dtype not in COMPLEX:
            return self
        if self.in_complex is not None:
            return self.in_complex
        return replace(self, magnitude="output") if self.kind == "rounded" else self


EXACT = ErrorModel("exact", backward="products")
ROUNDED = ErrorModel("rounded", "pointwise", backward="pointwise")
STRUCTURE = ErrorModel("structure")


def products(terms: Terms = reduced, **changes: Any) -> ErrorModel:
    """Sums of products, linear in every tensor argument: S from absolute values, forward and
    backward."""
    return replace(ErrorModel("accumulated", "products", terms, "sqrt", "products"), **changes)


def accumulated(magnitude: str | Magnitude, terms: Terms = reduced, **changes: Any) -> ErrorModel:
    """Other accumulations, with S named or given as a function."""
    return replace(ErrorModel("accumulated", magnitude, terms), **changes)


NORMWISE = accumulated("normwise", one)


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One declaration. ``name`` is PyTorch's OpInfo name; in-place forms add the trailing
    underscore of the method.

    ``function`` is the callable; left out, it is found by the name under ``torch``. ``sample``
    draws arguments. ``traits``: ``elementwise``, ``linear``, ``ties``, ``extremum`` (picks the
    largest or smallest), ``discontinuous``, ``random``, ``cast`` (the first argument in another
    dtype), ``through-sums`` (gradients made of intermediates that are sums), ``inplace``, ``view``,
    ``constant`` (a constant or mostly zero result is normal: no vacuity check) … ``observe`` turns
    ``(float64 args, kwargs, outputs)`` into the quantities that are unique and so can be compared:
    the value at an argmax, U·S·Vᴴ for an SVD. ``observe_gradients`` does so for gradients, such as
    their sums over tied elements. ``alternatives`` gives further admissible outputs for
    discontinuous operators. ``ranges`` are intervals of an argument (position, low, high) that a
    rule may name. ``mutates`` are the positions of tensors (in materialising order) written in
    place. ``reference`` replaces the callable for the float64 run. ``cases`` gives the cases of
    ``(dtype, examples, seed)`` where they are not drawn with ``sample``
    (:mod:`consistency.generate.calls.opinfo`). ``form_of`` is the operator of which this is another
    form (a method, ``out=``): the rules of that one hold here; ``leading`` counts the tensors that
    stand before that one's own arguments. ``whole`` are the positions of floating tensors that hold
    whole numbers, such as a degree, and so have no neighbours that an ulp away would mean nearly
    the same.
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
    ranges: tuple[tuple[int, float, float], ...] = ()
    mutates: tuple[int, ...] = ()
    reference: Callable[..., Any] | None = None
    differentiable_inputs: tuple[int, ...] | None = None
    cases: Callable[[str, int, int], list[Case]] | None = None
    form_of: Operator | None = None
    leading: int = 0
    whole: tuple[int, ...] = ()

    @property
    def ruled_by(self) -> tuple[str, str]:
        """Name and family by which tolerances are looked up."""
        return self.form_of.ruled_by if self.form_of is not None else (self.name, self.family)

    @functools.cached_property
    def callable(self) -> Callable[..., Any] | None:
        """The function to call, or None where this version of torch has none of that name."""
        return self.function if self.function is not None else resolve(self.name)

    @property
    def leaves(self) -> bool | tuple[int, ...]:
        """Which tensors gradients are asked for, as :meth:`Materials.build` takes it."""
        return True if self.differentiable_inputs is None else self.differentiable_inputs

    @property
    def directions(self) -> tuple[str, ...]:
        return ("forward", "backward") if self.differentiable else ("forward",)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.callable is None:
            raise NotImplementedError(f"torch {torch.__version__} has no {self.name}")
        return self.callable(*args, **kwargs)


def resolve(name: str) -> Callable[..., Any] | None:
    """``torch.nn.functional.gelu`` for ``nn.functional.gelu``, or a method of Tensor; None where
    there is no such thing."""
    path, _, last = name.rpartition(".")
    try:
        module = importlib.import_module(f"torch.{path}" if path else "torch")
    except ImportError:
        return None
    found = getattr(module, last, None) or (None if path else getattr(torch.Tensor, last, None))
    return found if callable(found) else None
