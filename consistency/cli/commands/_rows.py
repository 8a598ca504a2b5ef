"""Results as rows of JSON, for ``--json``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ...core.files import writing_named
from ...errors import UsageError

if TYPE_CHECKING:
    from ...engine.events import Event, Handler


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[IO[str] | None]:
    """The file that ``--json`` names, standard output for ``-``, None without it. Raises
    UsageError."""
    if path is None or str(path) == "-":
        yield None if path is None else sys.stdout
        return
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(writing_named(path, at_once=True))
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        yield stream


def json_writer(stream: IO[str], **more: Any) -> Handler:
    """A handler that writes every result as a line, with ``more`` in each."""
    from ...engine.events import Judged, Minimized
    from ...storage.bundle import result_to_json

    def write(event: Event) -> None:
        results = (
            event.results
            if isinstance(event, Judged)
            else (event.result,)
            if isinstance(event, Minimized)
            else ()
        )
        for result in results:
            stream.write(json.dumps(result_to_json(result) | more) + "\n")
        if results:
            stream.flush()

    return write
