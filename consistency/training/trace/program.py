"""A whole program under a watch: each of its calls is judged as it goes, until the first one that
diverges, whose line in the program is told."""

from __future__ import annotations

import contextlib
import importlib.util
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.folders import is_unused
from ...core.model import Result
from ...engine.config import resolved_backends
from ...errors import UsageError
from ...judge.tolerances import load
from .capture import CapturedCall, CaptureLimits
from .places import ProgramLine, places_of, traceback_of
from .session import KEPT, LARGEST, MEMORY, WatchSession


@dataclass
class ProgramRun:
    """What became of a program. ``places`` are the lines that led to the first divergence, the
    innermost first; ``status`` is the program's own exit status, or None where it was ended after
    that divergence; ``problem`` is the traceback of an exception that it raised itself."""

    session: WatchSession
    places: tuple[ProgramLine, ...] = ()
    call: CapturedCall | None = None
    result: Result | None = None
    status: int | None = 0
    problem: str = ""


class _Ended(BaseException):
    """Ends the program after its first divergence; no ``except Exception`` of it stops that."""


def run_program(
    target: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    backends: Sequence[str] = (),
    keep_going: bool = False,
    every_call: bool = False,
    out: Path | None = None,
    tolerances: str | None = None,
    case_timeout: float = 60.0,
) -> ProgramRun:
    """Run the file ``target`` (or the module of that name) as ``python target arguments`` would,
    and judge its calls.

    What the program itself computed is judged against float64 on the same inputs, and each call
    again on ``backends``. It ends at the first call that diverges, unless ``keep_going``. Of calls
    of one kind the first ones are judged, unless ``every_call``. ``out``: a folder for failures.
    Raises UsageError where there is no such program.
    """
    from ...backends.subprocess.requests import Limits

    if not module and not Path(target).is_file():
        raise UsageError(f"there is no program {target!r:.200}; give a file, or -m and a module")
    if out is not None and not is_unused(out):
        raise UsageError(f"{out} holds something already; name another folder for failures")
    resolved, specs = (
        resolved_backends(list(backends), Limits(case_timeout)) if backends else ((), {})
    )
    bounds = CaptureLimits(0 if every_call else KEPT, LARGEST, MEMORY, own=True)
    session = WatchSession(bounds, resolved, specs, load(tolerances), "now", out)
    run = ProgramRun(session)

    def on_failure(call: CapturedCall, result: Result) -> None:
        if run.result is None:
            run.places, run.call, run.result = places_of(sys._getframe()), call, result
            if not keep_going:
                raise _Ended

    session.on_failure = on_failure
    try:
        with _as_program(target, arguments, module), _found(target, module), session:
            if module:
                runpy.run_module(target, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(target, run_name="__main__")
    except _Ended:
        run.status = None
    except SystemExit as error:
        run.status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except UsageError:
        raise
    except KeyboardInterrupt:
        run.status, run.problem = 130, "interrupted"
    except BaseException as error:
        # An extension may wrap what ended it; then it is the divergence that counts.
        run.status = None if run.result is not None and not keep_going else 1
        run.problem = traceback_of(error) if run.status else ""
    return run


@contextlib.contextmanager
def _found(target: str, module: bool) -> Iterator[None]:
    """Raise UsageError where there is no such module."""
    if module:
        try:
            missing = importlib.util.find_spec(target) is None
        except (ImportError, ValueError):
            missing = True
        if missing:
            raise UsageError(f"there is no module {target!r:.200} to run; `python -m {target:.80}` "
                             "has to work in this folder")  # fmt: skip
    yield


@contextlib.contextmanager
def _as_program(target: str, arguments: Sequence[str], module: bool) -> Iterator[None]:
    """``sys.argv`` and ``sys.path`` as the program expects them."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [target, *arguments]
    sys.path.insert(0, str(Path.cwd()) if module else str(Path(target).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def program_text(run: ProgramRun) -> str:
    """The answer: where the first divergence is, and what was judged."""
    session = str(run.session)
    lines = []
    if run.result is not None and run.places:
        lines.append(f"the first call that diverges is made at {run.places[0]}")
        lines += [f"  called from {place}" for place in run.places[1:]]
    elif run.result is not None:
        lines.append("the first call that diverges is made outside of the program's own lines")
    if run.status is None:
        session += "\nthe program was ended there; --keep-going lets it run to its end"
    elif run.problem:
        lines.append("the program itself ended with an error; what it computed until then:")
    return "\n".join([*lines, session])
