"""The registry: every operator that the harness knows, one declaration each, in a module per
family.

``declare`` is the vocabulary of declarations; ``variants`` and ``call_forms`` derive complex dtypes
and the forms in place, with ``out=`` and as a method. No tolerances, and nothing that draws.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
from collections.abc import Iterable, Mapping

from ..core.dtypes import TORCH
from ..errors import UsageError, did_you_mean
from .declare import Operator
from .public_names import find_name, in_torch, shortened
from .unsigned import with_wide_unsigned
from .variants import in_place_form, with_complex

FAMILY_MODULES = (
    "unary", "special", "binary", "ternary", "comparisons", "casts", "reductions", "moments",
    "statistics", "finite_differences",
    "cumulative", "matmul", "contractions", "convolution", "normalization", "limited_norms",
    "softmax", "activations", "pooling", "fractional_pooling", "losses", "classification",
    "distances", "indexing", "scattering", "movement", "joining", "sorting", "histograms",
    "linear_algebra", "decompositions", "factored", "factor_squares", "fourier",
    "interpolation", "embedding", "attention", "recurrent", "creation", "random", "dropout",
    "inplace", "view_copies", "masked", "polynomials", "windows", "quantization",
    "complex_parts", "call_forms",
    "aten_forms", "formulas", "programs", "foreach", "optimizers", "train_then_eval",
    "derivatives",
)  # fmt: skip
_BACKENDS = (
    "cpu",
    "numpy",
    "cuda",
    "directml",
    "mps",
    "xpu",
)  # by these names alone; others are not worth an import


@functools.cache
def registry() -> dict[str, Operator]:
    """Every declared operator by name, in the order of the family modules."""
    result: dict[str, Operator] = {}
    for module in FAMILY_MODULES:
        for operator in importlib.import_module(f".{module}", __name__).OPERATORS:
            if operator.name in result:
                raise ValueError(f"operator {operator.name} is declared twice")
            result[operator.name] = with_wide_unsigned(with_complex(operator))
    return result


def variants(operator: Operator) -> list[Operator]:
    """The operator with its complex dtypes, and the forms that its fields request: what the
    registry derives from a declaration."""
    from .call_forms import method_form, out_form

    requested = (
        (operator.inplace, in_place_form),
        (operator.out, out_form),
        (operator.method, method_form),
    )
    return [
        with_complex(operator),
        *(with_complex(form(operator)) for field, form in requested if field),
    ]


@functools.cache
def by_aten_name() -> dict[str, str]:
    """Operator names by ATen's name, where that differs."""
    return {operator.aten: operator.name for operator in registry().values() if operator.aten}


def get(name: str, known: Mapping[str, Operator] | None = None) -> Operator:
    """The operator of that name, or of one that people use for it (``F.gelu``, ``torch.clip``,
    ``aten::addmm``), in the registry or among ``known``. Raises UsageError with the nearest
    names."""
    known = registry() if known is None else known
    found = find_name(name, known)
    return exactly(name if found is None else found, known)


def exactly(name: str, known: Mapping[str, Operator] | None = None) -> Operator:
    """The operator of that very name, as a case has it. Raises UsageError with the nearest
    names."""
    known = registry() if known is None else known
    try:
        return known[name]
    except KeyError:
        what = (
            "a backend"
            if name.partition("+")[0].partition(":")[0] in _BACKENDS
            else "a dtype"
            if name in TORCH
            else ""
        )
        hint = f": that is {what}" if what else did_you_mean(shortened(name), known)
        if not what and in_torch(name):
            hint = f", though torch has that function{hint.replace(';', ',') or ''}"
        raise UsageError(
            f"there is no operator {name!r}{hint or '; `consistency operators` lists them'}"
        ) from None


def select(
    patterns: Iterable[str | Operator] | None = None, known: Mapping[str, Operator] | None = None
) -> list[Operator]:
    """Operators by name (or what people call them), glob or family (``family:pooling``), in order;
    None selects all. Raises UsageError.

    ``known`` replaces the registry if given.
    """
    known = registry() if known is None else known
    if patterns is None:
        return list(known.values())
    chosen: dict[str, Operator] = {}
    for pattern in patterns:
        if isinstance(pattern, Operator):
            chosen[pattern.name] = pattern
        elif pattern.startswith("family:"):
            family = pattern.removeprefix("family:")
            families = {operator.family for operator in known.values()}
            if family not in families:
                hint = (
                    did_you_mean(family, families) or f"; there are {', '.join(sorted(families))}"
                )
                raise UsageError(f"there is no family {family!r}{hint}")
            chosen |= {
                name: operator for name, operator in known.items() if operator.family == family
            }
        elif any(mark in pattern for mark in "*?["):
            matching = [
                name
                for name in known
                if any(fnmatch.fnmatchcase(name, each) for each in (pattern, shortened(pattern)))
            ]
            if not matching:
                raise UsageError(
                    f"no operator matches {pattern!r}; `consistency operators` lists them"
                )
            chosen |= {name: known[name] for name in matching}
        else:
            operator = get(pattern, known)
            chosen[operator.name] = operator
    return list(chosen.values())
