"""From settings to a corpus, and from a corpus to a recording on one backend."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import backends
from ..backends.base import Backend, attempt
from ..backends.subprocess.backend import AHEAD, SubprocessBackend
from ..backends.subprocess.requests import Limits
from ..core import recipe
from ..core.foreign import Bounds
from ..core.model import Case, Outcome
from ..core.verdict import OutcomeStatus
from ..errors import BundleError, ConsistencyError, RecipeError, UsageError
from ..generate.calls import admission
from ..generate.calls.case_operator import operator_of
from ..generate.materialize import prepare
from ..operators.declare import Operator
from ..storage.cases import CaseEntry, read_cases
from ..storage.recording.header import (
    CORPUS,
    RECORDING,
    Header,
    RecordingSettings,
    read_header,
)
from ..storage.recording.writing import RecordingWriter
from .config import RunConfig, directions_of, operator_dtypes
from .unit_cases import drawn, undrawn


@dataclass(frozen=True, slots=True)
class Taken:
    """One step of a recording: how many outcomes (or cases of a corpus) are done, of how many, and
    the last one."""

    done: int
    total: int
    case: Case
    outcome: Outcome | None = None
    fresh: bool = True


def resolved(spec: str | Backend) -> Backend:
    """The backend that ``spec`` names; an accelerator in its own process, as in a run. Raises
    UsageError."""
    (backend,) = backends.resolve_all([spec])
    return backends.isolated(backend, spec) if isinstance(spec, str) else backend


def bounded(spec: str) -> Backend:
    """The backend that ``spec`` names in a process of its own, with the bounds of cases from
    elsewhere. Raises UsageError."""
    (backend,) = backends.resolve_all([spec])
    chosen = Bounds()
    if not isinstance(backend, SubprocessBackend):
        backend = SubprocessBackend(backend.name, spec)
    backend.limits = Limits(chosen.seconds, chosen.bytes)
    return backend


def settings_of(config: RunConfig, *, literal: bool) -> RecordingSettings:
    """The settings that a corpus was drawn with, as JSON data."""
    settings = config.describe()
    return {
        "operators": settings["operators"], "dtypes": settings["dtypes"],
        "directions": settings["directions"], "examples": settings["examples"],
        "seed": settings["seed"], "source": settings["source"], "literal": literal,
        "shipped": settings["shipped"],
    }  # fmt: skip


def entries(
    config: RunConfig, *, literal: bool = False
) -> Iterator[tuple[int, int, list[CaseEntry]]]:
    """The cases of ``config`` by operator × dtype: (group number, number of groups, cases)."""
    pairs = operator_dtypes(config)
    for number, (operator, dtype) in enumerate(pairs, start=1):
        unit = undrawn(config, operator, dtype)
        fresh = unit.fresh and replace(unit.fresh, further=())
        cases = drawn(replace(unit, fresh=fresh)).cases if fresh else ()
        directions = directions_of(config, operator, dtype)
        yield (
            number,
            len(pairs),
            [
                CaseEntry(literally(case) if literal else case, directions)
                for case in cases
                if directions
            ],
        )


def write_corpus(
    config: RunConfig, folder: Path, *, literal: bool = False, resume: bool = False
) -> Iterator[Taken]:
    """Draw and store cases. Raises BundleError if the folder holds a recording already."""
    writer = RecordingWriter(
        folder, Header(CORPUS, settings=settings_of(config, literal=literal)), resume=resume
    )
    done = 0
    try:
        for number, count, found in entries(config, literal=literal):
            for entry in found:
                fresh = entry.case.id not in writer.known
                writer.case(entry.case, entry.directions)
                done += 1
                yield Taken(
                    done, done + (count - number) * config.examples, entry.case, fresh=fresh
                )
        writer.finish()
    finally:
        writer.close()


def record(
    backend: Backend, source: RunConfig | Path, folder: Path, *, resume: bool = False,
    own: bool = True,
) -> Iterator[Taken]:  # fmt: skip
    """Run every case of a corpus (a folder), or of freshly drawn ones, on ``backend`` and store the
    outcomes. ``own``: the cases are the user's own (:mod:`consistency.storage.provenance`).

    Every step is yielded when its outcome is on disk. Raises BundleError for a damaged corpus or an
    unusable folder.
    """
    if isinstance(source, Path):
        header = read_header(source)
        settings, cases = header.settings, list(read_cases(source))
        total = sum(len(entry.directions) for entry in cases)
        batches: Iterator[tuple[int, int, list[CaseEntry]]] = iter([(1, 1, cases)])
        if not cases:
            raise BundleError(f"{source} holds no case")
        if source.resolve() == folder.resolve():
            raise UsageError(f"{folder} is the corpus itself: name another folder with -o")
        each = 0
    else:
        settings, batches = settings_of(source, literal=False), entries(source)
        each, total = source.examples * len(source.directions), 0
    writer = RecordingWriter(
        folder, Header(RECORDING, backend.name, backend.identity, settings), resume=resume, own=own
    )
    done = 0
    try:
        for number, count, batch in batches:
            for position, entry in enumerate(batch):
                writer.case(entry.case, entry.directions)
                backend.prefetch(_coming(batch[position : position + AHEAD], writer.done))
                for direction in entry.directions:
                    name = f"{entry.case.id}/{direction}"
                    fresh = name not in writer.done
                    outcome = outcome_of(backend, entry.case, direction) if fresh else None
                    if outcome is not None:
                        writer.outcome(name, entry.case, direction, outcome)
                    done += 1
                    yield Taken(
                        done, total or done + (count - number) * each, entry.case, outcome, fresh
                    )
        writer.finish()
    finally:
        writer.close()
        backend.close()


def _coming(
    batch: Iterable[CaseEntry], done: Container[str]
) -> Iterator[tuple[Operator, Case, str]]:
    """The next requests, for a backend that computes ahead."""
    for entry in batch:
        try:
            operator = operator_of(entry.case)
        except ConsistencyError:
            continue  # its outcome will report it
        for direction in entry.directions:
            if f"{entry.case.id}/{direction}" not in done:
                yield operator, entry.case, direction


def outcome_of(backend: Backend, case: Case, direction: str) -> Outcome:
    """The outcome of one case on ``backend``; a case that cannot be built has an outcome, too."""
    try:
        operator = operator_of(case)
        reason = admission.refusal(case, operator)
        return (
            Outcome(OutcomeStatus.UNSUPPORTED, message=reason)
            if reason
            else attempt(backend, operator, prepare(case), direction)
        )
    except RecipeError as error:
        return Outcome(OutcomeStatus.UNSUPPORTED, message=f"the case cannot be built: {error}")
    except ConsistencyError as error:
        return Outcome(OutcomeStatus.UNSUPPORTED, message=str(error))


def literally(case: Case) -> Case:
    """The same case with the bits of every tensor instead of its recipe; views stay chains of
    views."""
    materials = prepare(case)
    arguments = materials.build()
    remaining = iter(zip(materials.bases, arguments.tensors, strict=True))

    def walk(arg: recipe.Arg) -> recipe.Arg:
        match arg:
            case recipe.TensorRecipe():
                base, tensor = next(remaining)
                strided = (
                    tuple(tensor.shape),
                    tuple(tensor.stride()),
                    int(tensor.storage_offset()),
                )
                return recipe.Literal(
                    _bytes(base),
                    arg.dtype,
                    *strided,
                    leaf=arg.leaf,
                    base=arg.base if arg.view else (),
                    view=arg.view,
                )
            case recipe.Literal():
                next(remaining)
            case list():
                return [walk(item) for item in arg]
            case tuple():
                return tuple(walk(item) for item in arg)
        return arg

    args = tuple(walk(arg) for arg in case.args)
    return replace(case, args=args, kwargs={name: walk(arg) for name, arg in case.kwargs.items()})


def _bytes(base: np.ndarray[Any, Any]) -> bytes:
    """The numbers as little-endian bytes."""
    swapped = base if sys.byteorder == "little" else base.astype(base.dtype.newbyteorder("<"))
    return swapped.tobytes()
