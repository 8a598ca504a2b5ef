"""A limit of processor time for queries that read files from elsewhere: a few bytes may expand to
hours of work."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import BundleError

if TYPE_CHECKING:
    import duckdb

BETWEEN = 0.1  # seconds between two looks at the clock


@contextlib.contextmanager
def time_limit(db: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt the queries of the block after so many seconds of processor time, so that a busy
    machine interrupts no other ones than an idle one. Raises BundleError then."""
    import duckdb

    ended, started = threading.Event(), time.process_time()

    def interrupt() -> None:
        while not ended.wait(BETWEEN):
            if time.process_time() - started > seconds:
                db.interrupt()

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    try:
        yield
    except duckdb.InterruptException:
        raise BundleError(
            f"not read within {seconds:.0f} s of processor time, as its size would allow"
        ) from None
    finally:
        ended.set()
        thread.join()
