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
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.reading import PACKED, check_unpacked
from ...core.regular_files import regular
from ...core.text import printable
from ...core.verdict import OLD_VERDICTS, VERDICTS
from ...errors import BundleError, OutputError, UsageError
from ...judge.file_vocabulary import OLD_FAMILIES
from .bundle_sources import BundleSource
from .time_limit import time_limit

if TYPE_CHECKING:
    import duckdb

BATCH_BYTES, BATCH_BUNDLES = 1 << 28, 128  # of files that are read together
RATIO = 10  # assumed compression ratio
# Results that a file may have, plus one per 64 bytes, of a compressed one per four (real results
# take 250 or more, compressed 20).
FEW = 50_000
MAX_NAMES = {"operator": 3_000, "dtype": 64, "backend": 64}  # in a bundle
SECONDS, BYTES_PER_SECOND = 5.0, 5_000_000  # of processor time for reading (usual: 70 million)
ALLOWED = len(VERDICTS)  # the number of an allowed reduced precision
NAME, SENTENCE = 160, 400  # stored characters

_SCHEMA = """
CREATE TABLE about (version BIGINT);
CREATE TABLE bundles (bundle INTEGER PRIMARY KEY, identity VARCHAR UNIQUE, signature VARCHAR, path
    VARCHAR, created TIMESTAMP,
    label VARCHAR, corpus VARCHAR, complete BOOLEAN, damaged INTEGER, packed BOOLEAN);
CREATE TABLE hosts (env INTEGER PRIMARY KEY, label VARCHAR, backend VARCHAR);
CREATE TABLE identities (bundle INTEGER, env INTEGER, name VARCHAR, value VARCHAR);
CREATE TABLE groups (grp INTEGER PRIMARY KEY, operator VARCHAR, dtype VARCHAR, direction VARCHAR,
    family VARCHAR);
CREATE TABLE items (item INTEGER PRIMARY KEY, grp INTEGER, case_id VARCHAR);
CREATE TABLE outcomes (bundle INTEGER, env INTEGER, item INTEGER, verdict UTINYINT, fails BOOLEAN,
    rho FLOAT);
CREATE TABLE details (bundle INTEGER, env INTEGER, item INTEGER, sentence VARCHAR, cause VARCHAR,
    share FLOAT, workaround VARCHAR,
    expectation VARCHAR);
CREATE SEQUENCE numbers;
"""
# Tables that the stores of all versions have.
_TABLES = frozenset({"about", "bundles", "hosts", "identities", "groups", "items", "outcomes"})
VERSION = zlib.crc32(_SCHEMA.encode())  # another layout is another version
_COLUMNS = {
    "operator": "VARCHAR", "dtype": "VARCHAR", "direction": "VARCHAR", "backend": "VARCHAR",
    "verdict": "VARCHAR",
    "fails": "BOOLEAN",
    "shrunk": "BOOLEAN", "case_id": "VARCHAR", "family": "VARCHAR", "explanation": "VARCHAR",
    "cause": "VARCHAR", "share": "VARCHAR",
    "workaround": "VARCHAR", "expectation": "JSON", "metrics": "STRUCT(rho_max VARCHAR)",
}  # fmt: skip
_RENAMED = " ".join(f"WHEN {old!r} THEN {new!r}" for old, new in OLD_VERDICTS.items())
_RENAMED_FAMILIES = " ".join(f"WHEN {old!r} THEN {new!r}" for old, new in OLD_FAMILIES.items())
_INCOMING = f"""
CREATE OR REPLACE TEMP TABLE incoming AS
SELECT f.bundle, f.label, left(r.operator, {NAME}) AS operator, left(r.dtype, 40) AS dtype,
    r.direction, left(r.backend,
    {NAME}) AS backend,
    CASE WHEN r.verdict = 'reduced-precision' AND r.fails = false THEN {ALLOWED}
         ELSE list_position(?, CASE r.verdict {_RENAMED} ELSE r.verdict END) - 1
         END::UTINYINT AS verdict,
    coalesce(r.fails, false) AS fails, left(r.case_id, {NAME}) AS case_id,
    left(CASE r.family {_RENAMED_FAMILIES} ELSE r.family END, {NAME}) AS family,
    CASE WHEN r.metrics.rho_max IS NULL THEN NULL WHEN isnan(TRY_CAST(r.metrics.rho_max AS DOUBLE))
        THEN 'inf'::FLOAT
         ELSE least(greatest(TRY_CAST(r.metrics.rho_max AS DOUBLE), 0), 3e38)::FLOAT END AS rho,
    left(r.explanation, {SENTENCE}) AS sentence, left(r.cause, {NAME}) AS cause, TRY_CAST(r.share
        AS FLOAT) AS share,
    left(r.workaround, {SENTENCE}) AS workaround, left(r.expectation::VARCHAR, {SENTENCE}) AS
        expectation,
    coalesce(r.shrunk, false) AS shrunk
FROM read_json(?, columns = {_COLUMNS!r}, format = 'newline_delimited', ignore_errors = true,
    filename = true,
    maximum_object_size = 16777216) r JOIN files f ON f.file = r.filename LIMIT ?
"""
_WHOLE = "operator IS NOT NULL AND dtype IS NOT NULL " \
    "AND direction IN ('forward', 'backward') AND backend IS NOT NULL " \
    "AND verdict IS NOT NULL AND case_id IS NOT NULL"  # fmt: skip
_NAMES = (
    f"SELECT {', '.join(f'max({name})' for name in MAX_NAMES)} FROM (SELECT "
    f"{', '.join(f'count(DISTINCT {name}) AS {name}' for name in MAX_NAMES)} FROM incoming "
    "GROUP BY bundle)"
)
_TAKE = """
DELETE FROM incoming WHERE shrunk;
INSERT INTO hosts SELECT nextval('numbers'), label, backend FROM (SELECT DISTINCT label, backend
    FROM incoming)
    ANTI JOIN hosts USING (label, backend);
INSERT INTO groups SELECT nextval('numbers'), * FROM (SELECT operator, dtype, direction,
    coalesce(min(family), '') FROM
    incoming GROUP BY ALL)
    ANTI JOIN groups USING (operator, dtype, direction);
CREATE OR REPLACE TEMP TABLE known AS SELECT i.* EXCLUDE (label, backend, operator, dtype,
    direction, family), e.env, g.grp
    FROM incoming i JOIN hosts e USING (label, backend) JOIN groups g USING (operator, dtype,
        direction);
INSERT INTO items SELECT nextval('numbers'), grp, case_id FROM (SELECT DISTINCT grp, case_id FROM
    known) ANTI JOIN items
    USING (grp, case_id);
CREATE OR REPLACE TEMP TABLE numbered AS SELECT k.*, i.item FROM known k JOIN items i USING (grp,
    case_id);
"""
_PUT = """
INSERT INTO outcomes SELECT bundle, env, item, verdict, fails, rho FROM numbered ORDER BY env,
    bundle, item;
INSERT INTO details SELECT bundle, env, item, sentence, coalesce(cause, ''), share,
    coalesce(workaround, ''),
    coalesce(expectation, '')
    FROM numbered WHERE verdict IN (SELECT unnest(?)) ORDER BY env, bundle, item;
DROP TABLE incoming; DROP TABLE known; DROP TABLE numbered;
"""
_TOLD = [
    i
    for i, name in enumerate(VERDICTS)
    if name not in ("exact", "rounding", "inconclusive", "unsupported")
] + [ALLOWED]


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
            self.db = _open(path, made=made)
        except duckdb.Error as error:
            raise UsageError(
                f"cannot open the store {path}: {_first_line(error)}; "
                "name another file with --store"
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
                f"the store {name} is damaged: {_first_line(error)}; remove it, and name the "
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
        rows = self.db.execute("SELECT identity, signature, bundle FROM bundles").fetchall()
        stored = {identity: (signature, number) for identity, signature, number in rows}
        fresh = [
            source
            for source in bundles
            if stored.get(source.identity, ("",))[0] != source.signature and self._bounded(source)
        ]
        changed = [stored[source.identity][1] for source in fresh if source.identity in stored]
        for batch in _batches(fresh):
            self._batch(
                batch, [stored[source.identity][1] for source in batch if source.identity in stored]
            )
            self.fresh += len(batch)
            progress(self.fresh, len(fresh))
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

        try:
            with self._all_or_nothing():
                self._forget(changed)
                self._read(batch)
        except (duckdb.Error, BundleError) as error:
            if len(batch) == 1:  # a damaged bundle does not affect others
                self.problems.append(
                    printable(
                        f"passed over: {batch[0].folder} cannot be read: {_first_line(error)}"
                    )
                )
                return
            numbers = dict(self.db.execute("SELECT identity, bundle FROM bundles").fetchall())
            for source in batch:
                self._batch(
                    [source], [numbers[source.identity]] if source.identity in numbers else []
                )

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

    def _read(self, batch: Sequence[BundleSource]) -> None:
        (start,) = self.db.execute("SELECT coalesce(max(bundle), 0) + 1 FROM bundles").fetchall()[0]
        numbers = range(start, start + len(batch))
        columns = [
            list(numbers), [b.identity for b in batch], [b.signature for b in batch],
            [str(b.folder) for b in batch],
            [b.created for b in batch], [b.label for b in batch], [b.corpus for b in batch],
            [b.complete for b in batch], [0] * len(batch),
            [b.results is not None and b.results.suffix != ".jsonl" for b in batch],
        ]  # fmt: skip
        self.db.execute(
            f"INSERT INTO bundles SELECT {', '.join('unnest(?)' for _ in columns)}", columns
        )
        self._remember_environments(batch, numbers)
        files = [
            (number, one.label, str(one.results))
            for number, one in zip(numbers, batch, strict=True)
            if one.results is not None
        ]
        for one in batch:
            if one.results is None:
                self.problems.append(printable(f"{one.folder} has no results.jsonl"))
        for kind in (".jsonl", ".gz", ".zst"):
            self._results([file for file in files if file[2].endswith(kind)])

    def _remember_environments(self, batch: Sequence[BundleSource], numbers: Sequence[int]) -> None:
        rows = [
            (number, one.label, backend, name, value)
            for number, one in zip(numbers, batch, strict=True)
            for backend, keys in one.backends.items()
            for name, value in (
                {f"machine.{name}": value for name, value in one.machine.items()} | dict(keys)
            ).items()
        ]
        if not rows:
            return
        columns = [list(column) for column in zip(*rows, strict=True)]
        self.db.execute(
            "CREATE OR REPLACE TEMP TABLE told AS SELECT unnest(?) AS bundle, unnest(?) AS label, "
            "unnest(?) AS backend, unnest(?) AS name, unnest(?) AS value", columns,
        )  # fmt: skip
        self.db.execute(
            "INSERT INTO hosts SELECT nextval('numbers'), * FROM (SELECT DISTINCT label, backend "
            "FROM told) ANTI JOIN hosts USING (label, backend)"
        )
        self.db.execute(
            "INSERT INTO identities SELECT bundle, env, name, value "
            "FROM told JOIN hosts USING (label, backend)"
        )
        self.db.execute("DROP TABLE told")

    def _results(self, files: Sequence[tuple[int, str, str]]) -> None:
        """Read the rows of some files, all with the same compression."""
        if not files:
            return
        columns = [list(column) for column in zip(*files, strict=True)]
        self.db.execute(
            "CREATE OR REPLACE TEMP TABLE files AS SELECT unnest(?) AS bundle, "
            "unnest(?) AS label, unnest(?) AS file",
            columns,
        )
        max_results = sum(
            FEW + _length(Path(path)) // (64 if path.endswith(".jsonl") else 4)
            for _, _, path in files
        )
        length = sum(_length(Path(path)) for _, _, path in files)
        plain = length * (1 if files[0][2].endswith(".jsonl") else RATIO)
        with time_limit(self.db, SECONDS + plain / BYTES_PER_SECOND):
            ((count,),) = self.db.execute(
                _INCOMING,
                [list(VERDICTS), [_escape_glob(path) for _, _, path in files], max_results],
            ).fetchall()
        if count == max_results:  # an untrusted file may decompress to any size
            raise BundleError(f"more than {max_results:,} results in {length:,} bytes")
        self._count_damage(files)
        (counts,) = self.db.execute(_NAMES).fetchall()
        for (name, limit), number in zip(MAX_NAMES.items(), counts, strict=True):
            if (number or 0) > limit:
                raise BundleError(f"{number:,} names of {name}s: more than {limit:,} are no run's")
        for statement in _TAKE.split(";\n"):
            self.db.execute(statement)
        (duplicates,) = self.db.execute(
            "SELECT count(*) - count(DISTINCT (bundle, env, item)) FROM numbered"
        ).fetchall()[0]
        if duplicates:
            self.db.execute(
                "CREATE OR REPLACE TEMP TABLE numbered AS "
                "SELECT DISTINCT ON (bundle, env, item) * FROM numbered"
            )
        insert, details, *drop = _PUT.strip().split(";\n")
        self.db.execute(insert)
        self.db.execute(details, [_TOLD])
        for statement in drop:
            self.db.execute(statement)

    def _count_damage(self, files: Sequence[tuple[int, str, str]]) -> None:
        rows = self.db.execute(
            f"SELECT bundle, count(*) FROM incoming "
            f"WHERE NOT ({_WHOLE}) OR verdict IS NULL GROUP BY 1"
        ).fetchall()
        self.db.execute(f"DELETE FROM incoming WHERE ({_WHOLE}) IS NOT true")
        paths = {number: Path(path) for number, _, path in files}
        for number, many in rows:
            lines = many - _incomplete_last_lines(paths[number])
            if lines > 0:
                noun = "lines" if lines > 1 else "line"
                self.problems.append(
                    printable(f"{paths[number]}: {lines:,} damaged {noun} passed over")
                )
                self.db.execute("UPDATE bundles SET damaged = ? WHERE bundle = ?", [lines, number])


def _open(path: Path | None, *, made: bool) -> duckdb.DuckDBPyConnection:
    import duckdb

    if path is None:
        db = duckdb.connect()
    else:
        with contextlib.suppress(FileNotFoundError):
            regular(path, follow=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot write {path.parent}: {error.strerror}; name another file with --store"
            ) from None
        db = duckdb.connect(str(path))
        tables = {
            name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        }
        if "about" in tables and db.execute("SELECT version FROM about").fetchall() == [(VERSION,)]:
            return _quiet(db)
        if made or (tables and not tables >= _TABLES):
            db.close()
            raise UsageError(
                f"{path} is a store of another version: `consistency matrix` makes it anew"
                if tables >= _TABLES
                else f"{path} is a database of something else; name another file with --store"
            )
        if tables:  # an older layout: everything is read again
            db.close()
            path.unlink()
            db = duckdb.connect(str(path))
    for statement in _SCHEMA.strip().split(";\n"):
        db.execute(statement)
    db.execute("INSERT INTO about VALUES (?)", [VERSION])
    return _quiet(db)


def _quiet(db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    db.execute("SET enable_progress_bar = false")
    db.execute("SET autoinstall_known_extensions = false")  # nothing is fetched from anywhere
    return db


def _batches(bundles: Sequence[BundleSource]) -> Iterator[list[BundleSource]]:
    batch: list[BundleSource] = []
    size = 0
    for one in bundles:
        length = _length(one.results)
        length *= RATIO if one.results is not None and one.results.suffix != ".jsonl" else 1
        if batch and (size + length > BATCH_BYTES or len(batch) >= BATCH_BUNDLES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length
    if batch:
        yield batch


def _length(path: Path | None) -> int:
    return path.stat().st_size if path is not None and path.exists() else 0


def _escape_glob(path: str) -> str:
    """A path with escaped wildcards."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _incomplete_last_lines(path: Path) -> int:
    """1 if the last line is incomplete, since the run was killed or is still writing."""
    if path.suffix != ".jsonl":
        return 0
    with path.open("rb") as stream:
        if not stream.seek(0, 2):
            return 0
        stream.seek(-1, 2)
        return int(stream.read(1) != b"\n")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


def records(
    db: duckdb.DuckDBPyConnection, sql: str, values: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    cursor = db.execute(sql, list(values))
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
