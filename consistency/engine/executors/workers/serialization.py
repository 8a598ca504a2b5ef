"""The messages between coordinator and workers: JSON text, and the bytes of literal tensors.

Dask pickles its messages; these are text and bytes only, and are checked when read, like a bundle:
invalid ones raise a :class:`~consistency.errors.BundleError` with the worker's name.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....core.codec import pack_cases, unread_cases
from ....core.model import MEASURED_ELSEWHERE, Case, Result
from ....core.reading import parse_json
from ....core.text import one_line
from ....core.verdict import VERDICTS, Verdict, VerdictKind
from ....core.version import __version__
from ....diagnose.determinism import Repeatability
from ....diagnose.precision_scaling import Scaling
from ....errors import BundleError, RecipeError
from ....judge.known.schema import read_text
from ....storage.bundle import result_from_json, row_of
from ....storage.bundle.results import MAX_EXPLANATION
from ....storage.bundle.rows import row_text
from ...config import RunConfig
from ...events import (
    DeterminismChecked,
    Event,
    Judged,
    MemoryGrowth,
    Minimized,
    PrecisionScalingMeasured,
    UnitDone,
)
from ...work_unit import WorkUnit

MAX_EVENT = 1 << 26  # bytes; a result has a few thousand
Json = dict[str, Any]


def config_to_json(
    config: RunConfig, specs: Iterable[str], expectations: Iterable[str] = (), brief: bool = False
) -> Json:
    """The configuration as a worker needs it, without cases. ``specs`` name the backends,
    ``expectations`` the files of known divergences. ``brief``: see :func:`pack_event`.

    Raises ConfigurationError if a file cannot be read.
    """
    path = config.tolerances_path
    limits = config.limits
    return {
        "consistency": __version__, "run": uuid.uuid4().hex,
        "operators": [o.name for o in config.operators],
        "backends": list(specs),
        "dtypes": list(config.dtypes) if config.dtypes else None,
        "directions": list(config.directions),
        "examples": config.examples, "seed": config.seed, "shrink": config.shrink,
        "reference": config.reference,
        "source": config.source, "repeat": config.repeat, "case_timeout": limits.seconds,
        "worker_memory": limits.memory, "memory": config.memory,
        "tolerances": None if path is None else read_text(path, "a tolerances file"),
        "expectations": [read_text(Path(name), "an expectations file") for name in expectations],
        "digest": config.tolerances.digest, "brief": brief,
    }  # fmt: skip


def rows_of(results: Iterable[Result]) -> list[Json]:
    """Results as JSON data, without their cases."""
    return [row_of(result) for result in results]


def pack_event(event: Event, known: Collection[str], brief: bool = False) -> bytes:
    """An event of a unit: a line of JSON text, and for a judged case the row of each result, as
    bundles store it, in a further line. Cases whose ids are ``known`` to the receiver are left
    out.

    ``brief``: the receiver only counts what does not fail, and writes its row as it came; of a case
    that fails nowhere, the first line says what counting needs, so that few rows are parsed."""
    data: Json
    rows: list[str] = []
    match event:
        case Judged():
            data = {
                "kind": "judged",
                "case": event.case.id,
                "fresh": event.fresh,
                "origin": event.origin,
            }
            rows = [row_text(result) for result in event.results]
            if brief and not any(result.verdict.fails for result in event.results):
                data["counts"] = [_count(result, event.case) for result in event.results]
            data |= _unknown_cases([event.case, *(r.case for r in event.results)], known)
        case Minimized():
            data = {"kind": "shrunk", "rows": rows_of((event.original, event.result))}
            data |= _unknown_cases([event.original.case, event.result.case], known)
        case PrecisionScalingMeasured():
            data = {"kind": "scaled", "rows": [scaling.to_json() for scaling in event.scalings]}
        case DeterminismChecked():
            data = {"kind": "repeated", "rows": [item.to_json() for item in event.found]}
        case MemoryGrowth():
            data = {
                "kind": "grown",
                "operator": event.operator,
                "backend": event.backend,
                "bytes": event.bytes,
            }
        case UnitDone():
            data = {
                "kind": "done",
                "operator": event.operator,
                "dtype": event.dtype,
                "cases": event.cases,
            }
        case _:
            raise TypeError(f"{type(event).__name__} is no event of a work unit")
    return "\n".join((json.dumps(data, default=str), *rows)).encode("utf-8")


_COUNTED = {
    name: Verdict(name)
    for name in VERDICTS
    if not Verdict(name).fails and name != VerdictKind.KNOWN.value
}


def _count(result: Result, case: Case) -> list[Any] | None:
    """What counting needs of a result of ``case``; None where its whole row is needed."""
    verdict = result.verdict.value
    passes = result.verdict.passes
    told = passes or result.detail is None
    if not told or verdict not in _COUNTED or result.case is not case:
        return None
    why = "" if passes else result.explanation
    return [
        result.backend, result.direction, verdict, result.family, result.metrics.get("rho_max"),
        result.comparison is not None, why,
    ]  # fmt: skip


def _result_of(case: Case, count: Sequence[Any]) -> Result:
    """The result of which :func:`_count` was sent. Its measurements are in its row only."""
    backend, direction, verdict, family, rho, compared, why = count
    return Result(
        case, str(backend), str(direction), _COUNTED[verdict], one_line(str(why), MAX_EXPLANATION),
        {} if rho is None else {"rho_max": float(rho)}, str(family),
        comparison=MEASURED_ELSEWHERE if compared else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """The cases of a unit whose fresh ones a worker drew, or the ``problem`` that prevents any."""

    cases: tuple[Case, ...]
    problem: str


def pack_drawn(unit: WorkUnit) -> bytes:
    """A message with the cases of a unit, or why there are none."""
    data = {"kind": "drawn", "problem": unit.problem} | _unknown_cases(unit.cases, ())
    return json.dumps(data).encode("utf-8")


def _unknown_cases(cases: Sequence[Case], sent: Collection[str]) -> Json:
    """The cases that the receiver does not have, with their literal tensors."""
    strange = {case.id: case for case in cases if case.id not in sent}
    if not strange:
        return {}
    packed, blobs = pack_cases(list(strange.values()))
    return {
        "unknown_cases": packed,
        "blobs": [base64.b64encode(blob).decode("ascii") for blob in blobs],
    }


def unpack_event(text: bytes, known: Mapping[str, Case], sender: str) -> Event:
    """What :func:`pack_event` wrote. Raises BundleError, naming the ``sender``."""
    event = unpack_message(text, known, sender)
    if isinstance(event, Drawn):
        raise BundleError(f"{sender} sent cases where results were expected")
    return event


def unpack_message(text: bytes, known: Mapping[str, Case], sender: str) -> Event | Drawn:
    """What :func:`pack_event` or :func:`pack_drawn` wrote. Raises BundleError, naming the
    ``sender``."""
    try:
        if len(text) > MAX_EVENT:
            raise ValueError(f"an event of {len(text)} bytes")
        head, *rows = text.split(b"\n")
        return _event(parse_json(head), rows, known, _path(sender))
    except (BundleError, RecipeError) as error:
        raise BundleError(f"worker {sender} sent what is no result: {error}") from None
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        binascii.Error,
    ) as error:
        raise BundleError(
            f"worker {sender} sent what is no result: {type(error).__name__} {str(error)[:120]}"
        ) from None


_path = functools.lru_cache(64)(Path)  # of senders, as errors name files


def _event(
    data: Json, lines: Sequence[bytes], cases_by_id: Mapping[str, Case], sender: Path
) -> Event | Drawn:
    further: list[Case] = []
    if "unknown_cases" in data:
        literals = [base64.b64decode(item, validate=True) for item in data["blobs"]]
        further = unread_cases(data["unknown_cases"], literals)
    cases = {**cases_by_id, **{case.id: case for case in further}} if further else cases_by_id

    def results(rows: Iterable[Json]) -> tuple[Result, ...]:
        return tuple(
            result_from_json(sender, number, row, cases) for number, row in enumerate(rows, start=1)
        )

    match data["kind"]:
        case "drawn":
            return Drawn(tuple(further), str(data["problem"]))
        case "judged":
            case = cases[data["case"]]
            counts = data.get("counts") or [None] * len(lines)
            judged = tuple(
                result_from_json(sender, number, parse_json(line), cases)
                if count is None
                else _result_of(case, count)
                for number, (count, line) in enumerate(zip(counts, lines, strict=True), start=1)
            )
            rows = {result.key: line for result, line in zip(judged, lines, strict=True)}
            return Judged(case, judged, data["fresh"] is True, str(data["origin"]), rows=rows)
        case "shrunk":
            original, small = results(data["rows"])
            return Minimized(original, small)
        case "scaled":
            return PrecisionScalingMeasured(tuple(Scaling.from_json(row) for row in data["rows"]))
        case "repeated":
            return DeterminismChecked(tuple(Repeatability.from_json(row) for row in data["rows"]))
        case "grown":
            return MemoryGrowth(str(data["operator"]), str(data["backend"]), float(data["bytes"]))
        case "done":
            return UnitDone(str(data["operator"]), str(data["dtype"]), int(data["cases"]))
    raise ValueError(f"{str(data['kind'])[:40]!r} is no kind of event")
