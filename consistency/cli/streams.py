"""Standard streams of a command: any encoding, none at all, or one that cannot be written."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys

from ..core.output import STANDARD_OUTPUT, output_error, reason
from ..core.text import printable
from ..errors import OutputClosed, OutputError
from .echo import echo

# For streams that have only some of our signs, such as those of the C locale.
PLAIN = {
    "✓": "+", "✗": "x", "×": "x", "·": "-", "–": "-", "—": "-", "…": "...", "→": "->", "↔": "<->",
    "≤": "<=", "≥": ">=", "±": "+-", "≠": "!=", "÷": "/", "√": "sqrt ", "↑": "^", "↗": "/",
    "↘": "\\", "ρ": "rho", "σ": "sigma", "λ": "lambda", "½": "1/2", "²": "^2", "⁻": "^-", "−": "-",
    "“": '"', "”": '"', "‘": "'", "’": "'", "∞": "inf",
}  # fmt: skip
_WRITING = frozenset({errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EFBIG, errno.EBADF, errno.EROFS})
_HANDLER = "consistency.plain"
BROKEN_PIPE = 141  # as shells report SIGPIPE


def prepare() -> None:
    """Characters such as ✓ must not end a run on a stream that cannot encode them; Windows pipes
    and files get UTF-8. A closed stream (``>&-``) becomes the null device, or else the next file
    that is opened would get its number."""
    for number in range(3):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        with contextlib.suppress(OSError):
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            redirected = (
                os.name == "nt" and not stream.isatty() and "PYTHONIOENCODING" not in os.environ
            )
            stream.reconfigure(encoding="utf-8" if redirected else None, errors=_HANDLER)


def _plainly(error: UnicodeError) -> tuple[str | bytes, int]:
    """The handler of what a stream's encoding does not have: a plain sign, or its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = "".join(
        PLAIN[c] if c in PLAIN else c.encode("ascii", "backslashreplace").decode() for c in text
    )
    return plain, error.end


codecs.register_error(_HANDLER, _plainly)


def told(text: str) -> None:
    """Write a line to standard error, if that can be written."""
    with contextlib.suppress(OSError):
        echo(text, err=True)


def failed_write(error: OSError) -> OutputError:
    """What an OSError that nothing else has handled says to the user. Only standard output has no
    name where it cannot be written."""
    if error.errno in _WRITING:
        return output_error(STANDARD_OUTPUT, error)  # or the file that it names
    if error.filename is None:
        return OutputError(f"the operating system reports: {reason(error)}")
    return OutputError(f"{printable(str(error.filename))[:400]}: {reason(error)}")


def status_of(error: OutputError) -> int:
    """Write the line of a failed write, and return the exit status. A reader of a pipe that is gone
    needs to be told only how to go on."""
    discard_output()
    if isinstance(error, OutputClosed) and error.what == STANDARD_OUTPUT:
        if error.remedy:
            told(f"consistency: {error}")
        return BROKEN_PIPE
    told(f"consistency: {error}")
    return 2


def discard_output() -> None:
    """Discard what standard output has not taken, or Python complains of it at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
