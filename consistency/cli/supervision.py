"""Commands that run one foreign case do so in a process of their own, within bounds.

A case chooses its function and arguments, and what torch's kernels do with some of them is to end
the process, or to take all memory. So a case that the user's own runs did not write
(:mod:`consistency.storage.provenance`) is run by a second process with the same command line: its
reference, the baseline, the diagnosis, shrinking and scripts, too. This one waits, and reports how
it ended. Both use the same terminal, so that the output is that of the command.

Needs neither torch nor NumPy, and no more of the system than psutil has: the same on every system.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import psutil

from ..core.exit_status import death
from ..core.foreign import Bounds, active
from ..core.reading import read_bytes
from ..core.verdict import VerdictKind
from ..errors import ConsistencyError
from ..storage import provenance
from .echo import echo
from .options import ARGUMENTS

_MOST_OF_A_ROW = 1 << 24  # bytes
_OWN_SECONDS = 600.0  # for a case of the user's own
CRASHED = 1  # the exit status: the case ends its process, which is a failure
REFUSED = 2
_NOTE = "CONSISTENCY_FOREIGN_NOTE"  # a file in which the process says what it runs
_PATH = "CONSISTENCY_FOREIGN_PATH"
_PROGRAM = (
    f"import json, os, sys; sys.path[:] = json.loads(os.environ.pop({_PATH!r})); "
    "from consistency.cli.main import main; main(prog_name='consistency')"
)
_FLAGS = ("-X", "utf8") if sys.flags.utf8_mode else ()
_REPORTS = Path("reports")
_LOOK_SECONDS = 0.02
_WAIT_FACTOR = 6.0  # of the seconds, for a process that waits in place of computing


def supervise(
    case: str, identifier: str | None = None, *, trust: bool, more_seconds: float = 0.0
) -> None:
    """Run this command in a process with bounds, and exit with its status, if ``case`` is foreign;
    one's own in wide ones, if it is the folder of a failure that ended a process, so that this one
    can say how it ended.

    Returns at once in that process, and for a case that is trusted or else the user's own.
    ``more_seconds``: what the user gave the command beside the bounds.
    """
    if trust or active():
        return
    if "\0" in case:
        return  # no process takes it, and it names neither a case nor a file: it will be refused
    bounds = Bounds()
    if provenance.names_own_case(case, identifier, _REPORTS):
        if not _ended_a_process(case):
            return
        bounds = Bounds(psutil.virtual_memory().total, _OWN_SECONDS)
    sys.exit(_run(bounds, more_seconds))


def _ended_a_process(case: str) -> bool:
    """Whether ``case`` is the folder of such a failure."""
    try:
        text = read_bytes(Path(case) / "result.json", _MOST_OF_A_ROW)
        return str(json.loads(text)["verdict"]) == VerdictKind.CRASH.value
    except (ConsistencyError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return False  # whatever else it is, it is read in its own way


def supervise_file(bounds: Bounds, *, trust: bool) -> None:
    """Run this command, which reads a file from elsewhere, in a process with ``bounds``, and exit
    with its status. Returns at once in that process, and for a file that is trusted."""
    if not trust and not active():
        sys.exit(_run(bounds, 0.0))


def note(what: str) -> None:
    """In the process with bounds: say what it runs, should it not survive that."""
    path = os.environ.get(_NOTE)
    if path:
        with contextlib.suppress(OSError):
            Path(path).write_text(what, encoding="utf-8")


def _run(bounds: Bounds, more_seconds: float) -> int:
    arguments = click.get_current_context().find_root().meta[ARGUMENTS]
    with tempfile.TemporaryDirectory(prefix="consistency-") as place:
        path = Path(place) / "case"
        variables = {_NOTE: str(path), _PATH: json.dumps(sys.path), **bounds.variable}
        ended = _Supervised(arguments, variables, path, bounds, more_seconds).wait()
        what = path.read_text(encoding="utf-8") if path.is_file() else "the case"
    if not isinstance(ended, str) and ended >= 0 and (os.name != "nt" or ended < 0x80000000):
        return ended
    if isinstance(ended, str):
        text, status = f"{what} was ended: it took {ended}; {bounds.sentence}", REFUSED
    else:
        text, status = f"{what}   crash: the process that ran it ended ({death(ended)})", CRASHED
    echo(f"✗ {text}" if status == CRASHED else f"consistency: {text}", err=True)
    return status


class _Supervised:
    """The second process: watched until it ends, or exceeds its bounds and is ended."""

    def __init__(
        self, arguments: Sequence[str], variables: dict[str, str], note: Path, bounds: Bounds,
        more: float,
    ) -> None:  # fmt: skip
        self._command = [sys.executable, *_FLAGS, "-c", _PROGRAM, *arguments]
        self._environment = {**os.environ, **variables}
        self._bounds, self._seconds = bounds, bounds.seconds + more
        self._note, self._loaded = note, 0.0  # seconds of processor time before the case

    def wait(self) -> int | str:
        """The exit status, or what it took more of than it may."""
        with contextlib.ExitStack() as stack:
            # Where the output is not the terminal's or a file's, but a test's, it is passed on.
            kept = {
                name: None if _is_real(name) else stack.enter_context(tempfile.TemporaryFile())
                for name in ("stdout", "stderr")
            }
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdout=kept["stdout"], stderr=kept["stderr"]
            )
            self._began = time.monotonic()
            try:
                ended = self._watched()
            finally:
                self._kill()
            for name, stream in kept.items():
                if stream is not None:
                    stream.seek(0)
                    text = stream.read().decode("utf-8", "replace")
                    echo(text, nl=False, err=name == "stderr")
        return ended

    def _watched(self) -> int | str:
        while True:
            with contextlib.suppress(KeyboardInterrupt):  # the process got it, too, and says so
                try:
                    return self.process.wait(_LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    if exceeded := self._exceeded():
                        return exceeded

    def _exceeded(self) -> str:
        try:
            process = psutil.Process(self.process.pid)
            used, times = process.memory_info().rss, process.cpu_times()
        except psutil.Error:
            return ""
        if used > self._bounds.bytes:
            return f"more than {self._bounds.bytes / 1e9:g} GB of memory"
        # Both clocks: a busy machine takes none of the case's time, many threads are no misuse.
        computed = times.user + times.system
        if not self._loaded and self._note.exists():  # Python and torch are no part of the case
            self._began, self._loaded = time.monotonic(), computed
        elapsed, computed = time.monotonic() - self._began, computed - self._loaded
        if min(elapsed, computed) > self._seconds or elapsed > _WAIT_FACTOR * self._seconds:
            return f"more than {self._seconds:g} s"
        return ""

    def _kill(self) -> None:
        if self.process.poll() is not None:
            return
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait(10.0)


def _is_real(name: str) -> bool:
    """Whether Python's stream is the process's own, which the second process inherits."""
    stream = getattr(sys, name)
    try:
        stream.flush()
        return bool(stream.fileno() == {"stdout": 1, "stderr": 2}[name])
    except (OSError, ValueError, AttributeError):
        return False
