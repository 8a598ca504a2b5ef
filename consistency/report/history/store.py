"""The store: the results of bundles as typed columns in one DuckDB file, so that only new bundles
must be read.

A result takes about ten bytes. Tables: ``bundles`` (a run), ``hosts`` (label and backend),
``identities`` (the environment of a run), ``groups`` (operator, dtype, direction), ``items`` (a
case in a direction), ``outcomes`` (a result), ``details`` (sentence, cause and work-around of
failures and warnings).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...core.reading import PACKED, check_unpacked
from ...core.text import printable
from ...errors import BundleError, OutputError, UsageError
from .bundle_sources import BundleSource
from .store_file import first_line, opened
from .store_reading import RATIO, length_of, read_bundles

BATCH_BYTES, BATCH_BUNDLES = 1 << 28, 128  # of files that are read together
# What DuckDB may hold while it reads; beyond it, tables of a batch go to a file beside the store.
READING_MEMORY = "160MB"


class Store:
    """An open store. ``problems`` describes what could not be read, one line each; ``fresh`` is the
    number of bundles read by this object."""

    def __init__(self, path: Path | None = None, *, made: bool = False) -> None:
        """``path`` is the file, which is created if needed (``made``: it must be a store already,
        and stays one); None for a store in memory. Raises UsageError, BundleError."""
        import duckdb

        self.path, self.fresh = path, 0
        self.problems: list[str] = []
        try:
            self.db = opened(path, made=made)
        except duckdb.Error as error:
            raise UsageError(
                f"cannot open the store {path}: {first_line(error)}; name another file with --store"
            ) from None

    def close(self) -> None:
        self.db.close()

    @contextlib.contextmanager
    def readable(self) -> Iterator[Store]:
        """Close it at the end of the block. Raises UsageError if the file turns out to be damaged,
        or to be no store, OutputError on a full disk."""
        import duckdb

        try:
            yield self
        except duckdb.Error as error:
            name = printable(str(self.path or "of what was read"))
            if os.strerror(errno.ENOSPC) in str(error):
                told = f"cannot write the store {name}: {os.strerror(errno.ENOSPC)}"
                raise OutputError(told, full=True).then("repeat the command") from None
            raise UsageError(
                f"the store {name} is damaged: {first_line(error)}; remove it, and name the "
                "bundles again"
            ) from None
        finally:
            self.close()

    def take(
        self,
        bundles: Sequence[BundleSource],
        *,
        progress: Callable[[int, int], object] = lambda done, of: None,
    ) -> None:
        """Read new and changed bundles. Damage is reported in ``problems``."""
        import duckdb

        rows = self.db.execute("SELECT identity, signature, bundle FROM bundles").fetchall()
        stored = {identity: (signature, number) for identity, signature, number in rows}
        fresh = [
            source
            for source in bundles
            if stored.get(source.identity, ("",))[0] != source.signature and self._bounded(source)
        ]
        changed = [stored[source.identity][1] for source in fresh if source.identity in stored]
        if self.path is not None:  # one in memory has no place to put them
            with contextlib.suppress(duckdb.OutOfMemoryException):  # it holds more already
                self.db.execute(f"SET memory_limit = '{READING_MEMORY}'")
        for batch in _batches(fresh):
            self._batch(
                batch, [stored[source.identity][1] for source in batch if source.identity in stored]
            )
            self.fresh += len(batch)
            progress(self.fresh, len(fresh))
        self.db.execute("RESET memory_limit")
        if changed:
            self.db.execute("CHECKPOINT")

    def _bounded(self, source: BundleSource) -> bool:
        """Whether its results can be unpacked; if not, a problem is noted."""
        try:
            if source.results is not None and source.results.suffix == PACKED:
                check_unpacked(source.results)
        except (BundleError, OSError) as error:
            self.problems.append(printable(f"passed over: {source.folder}: {error}"))
            return False
        return True

    def keep_only(self, bundles: Sequence[BundleSource]) -> None:
        """Remove all other bundles."""
        identities = [one.identity for one in bundles]
        removed = self.db.execute(
            "SELECT bundle FROM bundles WHERE NOT list_contains(?, identity)", [identities]
        ).fetchall()
        if removed:
            with self._all_or_nothing():
                self._forget([number for (number,) in removed])

    def _batch(self, batch: Sequence[BundleSource], changed: Sequence[int]) -> None:
        import duckdb

        problems: list[str] = []
        try:
            try:
                self._read(batch, changed, problems)
            except duckdb.OutOfMemoryException:  # a limit that is too narrow is no damage
                self.db.execute("RESET memory_limit")
                problems.clear()
                self._read(batch, changed, problems)
            self.problems += problems
        except (duckdb.Error, BundleError) as error:
            if len(batch) == 1:  # a damaged bundle does not affect others
                self.problems.append(
                    printable(f"passed over: {batch[0].folder} cannot be read: {first_line(error)}")
                )
                return
            numbers = dict(self.db.execute("SELECT identity, bundle FROM bundles").fetchall())
            for source in batch:
                self._batch(
                    [source], [numbers[source.identity]] if source.identity in numbers else []
                )

    def _read(
        self, batch: Sequence[BundleSource], changed: Sequence[int], problems: list[str]
    ) -> None:
        with self._all_or_nothing():
            self._forget(changed)
            read_bundles(self.db, batch, problems)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        self.db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def _forget(self, numbers: Sequence[int]) -> None:
        for table in ("outcomes", "details", "identities", "bundles") if numbers else ():
            self.db.execute(f"DELETE FROM {table} WHERE list_contains(?, bundle)", [list(numbers)])


def _batches(bundles: Sequence[BundleSource]) -> Iterator[list[BundleSource]]:
    batch: list[BundleSource] = []
    size = 0
    for one in bundles:
        length = length_of(one.results)
        length *= RATIO if one.results is not None and one.results.suffix != ".jsonl" else 1
        if batch and (size + length > BATCH_BYTES or len(batch) >= BATCH_BUNDLES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch
