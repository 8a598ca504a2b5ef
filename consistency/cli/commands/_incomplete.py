"""What the screen shows, and the line says, where a run cannot write its bundle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.output import STANDARD_OUTPUT
from ...core.text import quote
from ...errors import OutputError

if TYPE_CHECKING:
    from ...engine.bundle_writer import BundleWriter
    from ...report.terminal import Screen


@contextlib.contextmanager
def completion_told(
    screens: Sequence[Screen], out: Path | None, writers: Sequence[BundleWriter]
) -> Iterator[None]:
    """After a failed write, show the verdicts known so far, and add to the error how the bundle in
    ``out`` is completed. Raises OutputError."""
    try:
        yield
    except OutputError as error:
        for screen in screens:
            screen.abandon()
        if out is None:
            raise
        where = quote(str(out))
        if error.what == STANDARD_OUTPUT and all(writer.finished for writer in writers):
            raise error.then(f"show the bundle with `consistency report --text {where}`") from None
        raise error.then(f"complete it with --resume --out {where}") from None
