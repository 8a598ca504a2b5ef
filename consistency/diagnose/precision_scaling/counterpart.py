"""The float64 counterpart of a float32 case, and the operators whose errors can be compared so."""

from __future__ import annotations

import sys
from dataclasses import replace

from ...core import recipe
from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...errors import RecipeError
from ...operators.declare import Operator

# x − tanh x is exact in float64 for large x, and never in float32
_EXACT_IN_FLOAT64 = ("nn.functional.tanhshrink",)
_FORMAT_DEPENDENT_CLASSES = (  # of values
    "subnormal",
    "tokens",
    "near",
    "beyond",
    "every",
    "landmarks",
)
# How many values name matrices that are not scaled by a power of two, class among them.
_UNSCALED = {"diagonal": 3, "exchanged": 3, "positive-definite": 2}


def float64_counterpart(case: Case) -> Case | None:
    """The same case in float64; None if its numbers would change: literals, or limits of the
    format."""

    def widened(value: recipe.Arg) -> recipe.Arg:
        match value:
            case TensorRecipe(dtype="float32"):
                of_format = value.values[0] in _FORMAT_DEPENDENT_CLASSES
                if value.special or of_format or _is_scaled_to_format(value):
                    raise RecipeError("numbers that depend on the format have no float64 twin")
                return replace(value, dtype="float64")
            case recipe.Literal():
                raise RecipeError("a literal tensor has no float64 twin")
            case recipe.DType("float32"):
                return recipe.DType("float64")
            case list():
                return [widened(item) for item in value]
            case tuple():
                return tuple(widened(item) for item in value)
        return value

    try:
        kwargs = {name: widened(value) for name, value in case.kwargs.items()}
        return Case(
            case.operator,
            "float64",
            tuple(map(widened, case.args)),
            kwargs,
            case.cotangent,
            cotangent_layout=case.cotangent_layout,
        )
    except RecipeError:
        return None


def _is_scaled_to_format(tensor: TensorRecipe) -> bool:
    """Whether these are matrices times a power of two, which the format's range gives."""
    return len(tensor.values) > _UNSCALED.get(tensor.values[0], sys.maxsize)


def applies(operator: Operator) -> bool:
    """Whether errors of this operator are rounding errors: not for data movement,
    discontinuities and random numbers."""
    return (
        operator.error.kind in ("rounded", "accumulated")
        and operator.alternatives is None
        and operator.name not in _EXACT_IN_FLOAT64
        and not operator.mutates
        and not operator.traits & {"random", "discontinuous", "ties"}
    )
