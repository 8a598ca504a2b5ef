"""Results as rows of JSON, for ``--json``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ...core.files import writing_named
from ...core.output import CheckedStream, writing

if TYPE_CHECKING:
    from ...engine.events import Event, Handler

STDOUT = "-"


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[IO[str] | None]:
    """The file that ``--json`` names, standard output for ``-``, None without it. Raises
    OutputError; so does the stream."""
    if path is None:
        yield None
    elif str(path) == STDOUT:
        yield cast(IO[str], CheckedStream(sys.stdout))
    else:
        # Closing a file that could not be written fails again, also where nothing else does.
        with writing(path), contextlib.ExitStack() as stack:
            with writing(path, remedy="name another file with --json"):
                stream = stack.enter_context(writing_named(path, at_once=True))
            yield cast(IO[str], CheckedStream(stream, str(path)))


def json_writer(stream: IO[str], **more: Any) -> Handler:
    """A handler that writes every result as a line, with ``more`` in each. Raises OutputError."""
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
