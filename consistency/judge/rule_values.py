"""What a rule says, what a backend may do, and what another dtype or direction inherits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

GRADIENT = 2.0  # × the forward bounds: gradients have about twice the error


@dataclass(frozen=True, slots=True)
class RangeRule:
    """Other bounds for elements whose argument number ``argument`` lies in [low, high].

    ``c`` (ulp), ``lam`` (factor) and ``absolute`` (in units of the output) are None if those of the
    rule apply. ``unspecified``: *outside* of the range results are not judged.
    """

    argument: int
    low: float
    high: float
    c: float | None = None
    lam: float | None = None
    absolute: float | None = None
    unspecified: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """The bounds for one kind of result.

    ``c`` in ulp of the output dtype, ``lam`` the factor λ, ``absolute`` (or None) a bound in units
    of the output: if no error is larger, c and λ are ignored. ``rmse_ratio`` and ``scaled_ratio``
    are × the CPU's error in the same dtype, ``sign_bias`` is |n₊−n₋|/√n. ``source`` and ``place``
    (``tolerances.yaml:41``) belong to the most specific entry that gave a bound.
    """

    c: float
    lam: float
    absolute: float | None = None
    ranges: tuple[RangeRule, ...] = ()
    rmse_ratio: float = 4.0
    scaled_ratio: float = 4.0
    sign_bias: float = 6.0
    source: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a backend is free to do: sets of admissible answers.

    ``flush_subnormals``: subnormals may become zero. ``nan_in_max``: min and max of (NaN, x) give
    NaN, or ``any`` of the two. ``signed_zero``: whether the sign of a zero counts.
    ``saturating_casts``: which numbers beyond an integer's range may saturate: none, floats, or
    integers too. ``reduced_precision``: TF32 and similar only warn. ``overflow``: beyond the
    largest number of a format the result is infinity, or ``any`` of that number and infinity, as in
    rounding toward zero. ``nondeterminism``: repeated calls give the same bits, or may sum in
    another order (``rounding``). ``strides``: new results have those that torch documents
    (memory formats), all that its shape functions state, also the memory formats that torch's CPU
    chooses where they state none (``cpu``), or ``any``.
    """

    flush_subnormals: bool = False
    nan_in_max: Literal["propagate", "any"] = "propagate"
    signed_zero: Literal["strict", "any"] = "strict"
    saturating_casts: Literal["never", "floats", "any"] = "floats"
    reduced_precision: bool = False
    overflow: Literal["infinity", "any"] = "infinity"
    nondeterminism: Literal["none", "rounding"] = "none"
    strides: Literal["documented", "stated", "cpu", "any"] = "documented"


POLICY_KEYS = tuple(field_info.name for field_info in fields(Policy))
RULE_KEYS = tuple(field_info.name for field_info in fields(Rule))


def float64_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What float64 inherits from float32: bounds that scale with the dtype, without absolute
    ones and policies."""
    scalable = {
        key: value for key, value in values.items() if key != "absolute" and key not in POLICY_KEYS
    }
    return scalable | (
        {"ranges": tuple(replace(range_rule, absolute=None) for range_rule in scalable["ranges"])}
        if "ranges" in scalable
        else {}
    )


def gradient_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of a gradient, derived from those of the forward direction."""

    def doubled(bound: float | None) -> float | None:
        return None if bound is None else GRADIENT * bound

    result = {
        key: doubled(value) if key in ("c", "lam", "absolute") else value
        for key, value in values.items()
    }
    if "ranges" in values:
        result["ranges"] = tuple(
            replace(
                range_rule,
                c=doubled(range_rule.c),
                lam=doubled(range_rule.lam),
                absolute=doubled(range_rule.absolute),
            )
            for range_rule in values["ranges"]
        )
    return result
