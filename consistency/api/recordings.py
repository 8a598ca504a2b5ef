"""Recording and judging for Python programs: the same as the two commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .. import backends as _backends
from ..backends.base import Backend
from ..engine import engine
from ..engine import record as taking
from ..engine.events import Handler, dispatch
from ..engine.fingerprints import Fingerprints
from ..engine.judge_recordings import RecordingPlan, events, plan
from ..errors import OutputError, UsageError
from ..judge.tolerances import Tolerances
from ..operators.declare import Operator
from ..report import bundles
from ..storage.provenance import is_own_folder


def record(
    operators: Iterable[str | Operator] | None = None, backend: str | Backend | None = None, *,
    out: str | Path,
    corpus: str | Path | None = None, dtypes: Iterable[str] | None = None,
    directions: Iterable[str] = engine.DIRECTIONS,
    examples: int = 50, seed: int = 0, literal: bool = False, resume: bool = False,
    source: str = "drawn",
) -> int:  # fmt: skip
    """Write cases into the folder ``out`` and, with a ``backend``, what it does with them; returns
    how many there are.

    ``corpus`` is a folder of cases written before, in place of drawn ones. Raises UsageError,
    BundleError or OutputError with one clear line.
    """
    if corpus is None:
        chosen = engine.configure(
            operators, ["cpu"], dtypes, directions, examples, seed, source=source
        )
    if backend is None:
        if corpus is not None:
            raise UsageError("a corpus is recorded on a backend: name one")
        return _count(taking.write_corpus(chosen, Path(out), literal=literal, resume=resume))
    chosen_backend = taking.resolved(backend)
    reason = _backends.availability(chosen_backend)
    if reason:
        raise UsageError(f"{chosen_backend.name} cannot run here: {reason}")
    cases = chosen if corpus is None else Path(corpus)
    own = corpus is None or is_own_folder(Path(corpus))
    return _count(taking.record(chosen_backend, cases, Path(out), resume=resume, own=own))


def _count(steps: Iterable[object]) -> int:
    try:
        return sum(1 for _ in steps)
    except OutputError as error:
        raise error.then("complete it with resume=True") from None


def judge_recordings(
    recordings: str | Path | Sequence[str | Path],
    operators: Iterable[str | Operator] | None = None, *,
    tolerances: str | Path | Tolerances | None = None, out: str | Path | None = None,
    handlers: Sequence[Handler] = (),
    expectations: Iterable[str | Path] | str | Path = (), resume: bool = False,
) -> engine.Run:  # fmt: skip
    """Judge recordings against float64, computed here from their stored inputs.

    The results have the recordings' own ids as ``recorded_id``. ``out``: a folder for a bundle.
    ``resume`` completes an interrupted one. ``expectations``: files of known divergences, in
    addition to those of the tolerances. Raises BundleError, UsageError, ConfigurationError or
    OutputError with one clear line.
    """
    folders = [recordings] if isinstance(recordings, (str, Path)) else list(recordings)
    planned = plan(folders, operators, tolerances, (), expectations)
    collect = engine.Collect()
    try:
        if out is None:
            _drive(planned, [collect, *handlers])
        else:
            own = all(is_own_folder(Path(folder)) for folder in folders)
            writer = bundles.writer(Path(out), resume=resume, own=own)
            try:
                _drive(planned, [collect, writer, Fingerprints(Path(out)), *handlers])
            finally:
                writer.close()
    except OutputError as error:
        results = tuple(collect.results)
        raise error.then("complete it with resume=True", results) from None
    finally:
        planned.close()
    return engine.Run(
        tuple(collect.results),
        planned.config,
        collect.seconds,
        Path(out) if out is not None else None,
    )


def _drive(planned: RecordingPlan, handlers: Sequence[Handler]) -> None:
    for event in events(planned):
        dispatch(event, handlers)
