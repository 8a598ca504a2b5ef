"""Results as rows of JSON, for ``--json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..errors import UsageError


def opened(path: Path | None) -> IO[str] | None:
    if path is None:
        return None
    if str(path) == "-":
        return sys.stdout
    try:
        return path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def json_writer(stream: IO[str]) -> Callable[[Any], None]:
    from ..bundle import result_to_json
    from ..events import Judged, Shrunk

    def write(event: Any) -> None:
        results = event.results if isinstance(event, Judged) else (event.result,) if isinstance(event, Shrunk) else ()
        for result in results:
            stream.write(json.dumps(result_to_json(result)) + "\n")
        if results:
            stream.flush()

    return write
