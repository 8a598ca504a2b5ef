"""A result as JSON data, for ``--json`` and for bundles."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, NotRequired

from typing_extensions import TypedDict

from ...core.detail import detail_to_json
from ...core.model import Result
from ...core.schema import Count, Finite, Integer, Number


class WorstRow(TypedDict, total=False):
    """The worst element; keys with zeros are left out."""

    index: list[Integer]
    actual: Number
    expected: Number


class ProofRow(TypedDict):
    """What was proved of the worst element."""

    output: str
    index: list[Integer]
    digits: str
    bits: Count


class KnownRow(TypedDict):
    """The known divergence that a failure matched."""

    entry: str
    place: str
    verdict: str
    max_rho: Finite | None
    flaky: bool


class ResultRow(TypedDict):
    """A result as JSON data. ``shrunk`` and ``origin`` are written by a run; what the comparison
    and the evidence hold is checked where it is read."""

    case_id: str
    backend: str
    direction: str
    verdict: str
    explanation: str
    metrics: dict[str, Number]
    family: str
    output: str
    shapes: list[str]
    sha256: str
    operator: NotRequired[str]
    dtype: NotRequired[str]
    fails: NotRequired[bool]
    worst: NotRequired[WorstRow]
    proof: NotRequired[ProofRow | None]
    cause: NotRequired[str]
    share: NotRequired[Finite]
    workaround: NotRequired[str]
    detail: NotRequired[dict[str, Any]]
    recorded_id: NotRequired[str]
    expectation: NotRequired[KnownRow | None]
    comparison: NotRequired[dict[str, Any]]
    evidence: NotRequired[dict[str, Any]]
    shrunk: NotRequired[bool]
    origin: NotRequired[str]


def result_to_json(result: Result, *, case: bool = True) -> dict[str, Any]:
    """The fields of a Result as JSON data; with ``case=False`` it has only the case's id."""
    row: dict[str, Any] = {
        "operator": result.operator, "dtype": result.dtype, "direction": result.direction,
        "backend": result.backend,
        "verdict": result.verdict.value, "fails": result.verdict.fails,
        "explanation": result.explanation,
        "metrics": {name: _number(value) for name, value in result.metrics.items()},
        "case_id": result.case.id,
        "family": result.family, "output": result.output, "shapes": list(result.shapes),
        "sha256": result.sha256,
    }  # fmt: skip
    if result.worst is not None:
        worst = result.worst
        row["worst"] = {
            "index": list(worst.index),
            "actual": _number(worst.actual),
            "expected": _number(worst.expected),
        }
    if result.proof is not None:
        proof = result.proof
        row["proof"] = {
            "output": proof.output,
            "index": list(proof.index),
            "digits": proof.digits,
            "bits": proof.bits,
        }
    if result.cause:
        row |= {"cause": result.cause, "share": round(result.share, 6)}
    if result.workaround:
        row["workaround"] = result.workaround
    if result.detail is not None:
        row["detail"] = detail_to_json(result.detail)
    if result.recorded_id:
        row["recorded_id"] = result.recorded_id
    if result.known is not None:
        row["expectation"] = asdict(result.known)
    if case:
        row["case"] = result.case.to_json()
    return row


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def _compact(value: Any) -> Any:
    """JSON data without empty and zero values, which are most of a comparison; reading restores
    them as defaults."""
    kind = type(value)  # asked first: most values are numbers, text and their tuples
    if kind in _PLAIN:
        return value
    if kind is tuple or isinstance(value, (list, tuple)):
        return [item if type(item) in _PLAIN else _compact(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    if is_dataclass(value):
        return _compact_fields(value)
    if isinstance(value, Mapping):
        return {key: _compact(item) for key, item in value.items() if _is_not_default(key, item)}
    return value


def _compact_fields(value: Any) -> dict[str, Any]:
    # dataclasses.asdict copies every value deeply first, which takes half of a small case's time;
    # plain values, which are most, need no further look
    data = {}
    kind: Any = type(value)
    names, values = _fields(kind)
    for name, item in zip(names, values(value), strict=True):
        if type(item) in _PLAIN:
            if item:
                data[name] = item
        elif _is_not_default(name, item):
            data[name] = _compact(item)
    return data


_PLAIN = frozenset({str, int, bool, type(None)})


@cache
def _fields(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a data class's fields, and what takes their values."""
    names = tuple(field.name for field in fields(kind))
    if len(names) > 1:  # of one name, attrgetter gives the value itself
        return names, attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


def _is_not_default(key: str, value: Any) -> bool:
    """Whether a value differs from its default: for flushed errors, empty differs from None, and
    -0.0 is not the default."""
    return (
        bool(value)
        or (isinstance(value, float) and math.copysign(1.0, value) < 0.0)
        or (key == "flushed" and value is not None)
    )


def row_of(result: Result) -> dict[str, Any]:
    """A result as bundles store it, with everything needed to judge it again; its case is stored
    separately under ``case_id``."""
    row = result_to_json(result, case=False)
    if result.comparison is not None:
        row["comparison"] = _compact_fields(result.comparison)
        if result.comparison.detail is not None:
            row["comparison"]["detail"] = detail_to_json(result.comparison.detail)
    if result.evidence is not None:
        row["evidence"] = _compact_fields(result.evidence)
    return row


def row_text(result: Result) -> str:
    """:func:`row_of` as one line of JSON, without its end."""
    return json.dumps(row_of(result), default=str)
