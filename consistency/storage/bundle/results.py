"""Parse a stored result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...core.detail import detail_from_json
from ...core.model import (
    Case,
    Cause,
    Comparison,
    ElementGroup,
    Evidence,
    Known,
    Measured,
    Origin,
    Proof,
    Result,
    Worst,
)
from ...core.schema import check
from ...core.text import one_line
from ...core.verdict import OutcomeStatus, Verdict, verdict_name
from ...errors import BundleError
from ...judge.file_vocabulary import OLD_FAMILIES
from .old_details import old_comparison_detail, old_detail
from .rows import ResultRow

MAX_EXPLANATION = 10_000  # characters; the exceptions of earlier versions have no limit


def result_from_json(
    path: Path, number: int, row: dict[str, Any], cases: Mapping[str, Case]
) -> Result:
    """The result in line ``number`` of ``path``; ``cases`` are by id. Raises BundleError."""
    check(row, ResultRow, f"{path}:{number}  damaged:")
    try:
        case = cases.get(row["case_id"])
        if case is None:
            raise BundleError(
                f"{path}:{number}  damaged: cases.jsonl has no case {str(row['case_id'])[:80]!r}"
            )
        metrics = {name: float(value) for name, value in row["metrics"].items()}
        worst = _worst(row["worst"]) if "worst" in row else None
        comparison = _comparison(row["comparison"]) if "comparison" in row else None
        verdict = Verdict(row["verdict"], allowed=_allowed(row))
        family = OLD_FAMILIES.get(row["family"], row["family"])
        explanation = one_line(row["explanation"], MAX_EXPLANATION)
        return Result(
            case, row["backend"], row["direction"], verdict, explanation,
            metrics, family, worst, row["output"], tuple(row["shapes"]), comparison, row["sha256"],
            _evidence(row["evidence"]) if "evidence" in row else None, row.get("recorded_id", ""),
            known_of(row.get("expectation")), _proof(row.get("proof")),
            detail_from_json(row["detail"]) if "detail" in row else old_detail(row),
        )  # fmt: skip
    except KeyError as error:
        raise BundleError(f"{path}:{number}  damaged: it has no {error}") from None
    except (TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise BundleError(
            f"{path}:{number}  damaged: {type(error).__name__} {str(error)[:100]}"
        ) from None


def known_of(data: Any) -> Known | None:
    """The known failure that a row matched. May raise any exception for invalid data."""
    if data is None:
        return None
    entry, place, verdict = (str(data[key])[:400] for key in ("entry", "place", "verdict"))
    ratchet = data["max_rho"]
    return Known(
        entry, place, verdict, None if ratchet is None else float(ratchet), bool(data["flaky"])
    )


def _proof(data: Any) -> Proof | None:
    """The certified value of a failing result's worst element."""
    if data is None:
        return None
    return Proof(
        str(data["output"])[:40],
        tuple(int(i) for i in data["index"]),
        str(data["digits"])[:200],
        int(data["bits"]),
    )


def _allowed(row: Mapping[str, Any]) -> bool:
    return row["verdict"] == "reduced-precision" and row.get("fails") is False


def _worst(data: Any) -> Worst:
    return Worst(
        tuple(int(i) for i in data.get("index", ())),
        float(data.get("actual", 0.0)),
        float(data.get("expected", 0.0)),
    )


def _comparison(data: Any) -> Comparison:
    outputs = tuple(_measured(item) for item in data.get("outputs", ()))
    structure, note, unsteady = (
        str(data.get(key, "")) for key in ("structure", "note", "unsteady")
    )
    detail = detail_from_json(data["detail"]) if "detail" in data else old_comparison_detail(data)
    return Comparison(
        OutcomeStatus(verdict_name(str(data["status"]))),
        outputs,
        structure,
        note,
        unsteady,
        detail,
        str(data.get("contract", "")),
    )


# Keys of a result's evidence and comparison as earlier versions wrote them.
_OLD_KEYS = {
    "initial_verdict": "first", "input_perturbation_ratio": "conditioned",
    "random_rounding_ratio": "rounded", "float64_error_ratio": "wide",
    "backend_agreement": "company", "element_groups": "spans", "pareto_front": "hull",
}  # fmt: skip
_NEW_KEYS = {old: new for new, old in _OLD_KEYS.items()}


def _value(data: Mapping[str, Any], key: str, default: Any = None) -> Any:
    """The value of a key, under its current or old name."""
    return data[key] if key in data else data.get(_OLD_KEYS[key], default)


def _evidence(data: Any) -> Evidence:
    cause, origin = data.get("cause"), data.get("origin")
    float64_error_ratio = _value(data, "float64_error_ratio")
    return Evidence(
        str(_value(data, "initial_verdict")), int(data.get("repeats", 0)),
        int(data.get("other", 0)), int(data.get("within", 0)),
        float(_value(data, "input_perturbation_ratio", 0.0)),
        float(_value(data, "random_rounding_ratio", 0.0)),
        None if float64_error_ratio is None else float(float64_error_ratio),
        {str(words): float(rho) for words, rho in data.get("trials", {}).items()},
        Cause(str(cause["name"]), str(cause["words"]), float(cause["share"])) if cause else None,
        str(_value(data, "backend_agreement", "")), bool(data.get("brief", False)),
        tuple(str(name) for name in data.get("rivals", ())),
        Origin(str(origin["stage"]), str(origin["words"])) if origin else None,
    )  # fmt: skip


def _cluster(data: Any) -> tuple[float, int, str] | None:
    return (float(data[0]), int(data[1]), str(data[2])) if data else None


def _of_steps(data: Any) -> tuple[float, float] | None:
    return (float(data[0]), float(data[1])) if data else None


def _element_groups(data: Any) -> tuple[ElementGroup, ...]:
    return tuple(_element_group(item) for item in data)


# How each key of a stored output is read; others are ignored.
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("name", "dtype", "vacuous", "pattern"), str),
    **dict.fromkeys(("exact", "independent", "at_end"), bool),
    **dict.fromkeys(("elements", "differing", "positive", "negative", "outward"), int),
    **dict.fromkeys(("rms", "sigma_rms", "sigma_max", "terms"), float),
    "shape": lambda sizes: tuple(map(int, sizes)),
    "element_groups": _element_groups,
    "special": lambda counts: {str(kind): int(count) for kind, count in counts.items()},
    "special_worst": _worst,
    "cluster": _cluster,
    "of_steps": _of_steps,
}


def _measured(data: Any) -> Measured:
    values: dict[str, Any] = {"name": "", "dtype": "", "shape": (), "elements": 0}
    for key, item in data.items():
        read = _READ.get(_NEW_KEYS.get(key, key))
        if read is not None:
            values[_NEW_KEYS.get(key, key)] = read(item)
    return Measured(**values)


def _element_group(data: Any) -> ElementGroup:
    interval = tuple(map(float, data["range"])) if "range" in data else None
    return ElementGroup(
        (int(interval[0]), interval[1], interval[2]) if interval else None,
        float(data.get("ulp_max", 0.0)), float(data.get("scaled_max", 0.0)),
        float(data.get("abs_max", 0.0)),
        _pareto_points(_value(data, "pareto_front", ())) or (),
        tuple(_worst(item) for item in data.get("worst", ())),
        _pareto_points(data.get("flushed")),
    )  # fmt: skip


def _pareto_points(data: Any) -> tuple[tuple[float, float], ...] | None:
    return None if data is None else tuple((float(a), float(b)) for a, b in data)
