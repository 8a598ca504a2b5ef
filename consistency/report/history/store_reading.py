"""Reading of the results of bundles into a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.text import printable
from ...core.verdict import VERDICTS
from ...errors import BundleError
from .bundle_sources import BundleSource
from .store_statements import INCOMING, MAX_NAMES, NAMES, PUT, TAKE, TOLD, WHOLE
from .time_limit import time_limit

if TYPE_CHECKING:
    import duckdb

RATIO = 10  # assumed compression ratio
# Results that a file may have, plus one per 64 bytes, of a compressed one per four (real results
# take 250 or more, compressed 20).
FEW = 50_000
SECONDS, BYTES_PER_SECOND = 5.0, 5_000_000  # of processor time for reading (usual: 70 million)


def read_bundles(
    db: duckdb.DuckDBPyConnection, batch: Sequence[BundleSource], problems: list[str]
) -> None:
    """Read new bundles into the store; what is damaged is told in ``problems``. Raises BundleError
    where a file holds more than a run can have."""
    (start,) = db.execute("SELECT coalesce(max(bundle), 0) + 1 FROM bundles").fetchall()[0]
    numbers = range(start, start + len(batch))
    columns = [
        list(numbers), [b.identity for b in batch], [b.signature for b in batch],
        [str(b.folder) for b in batch],
        [b.created for b in batch], [b.label for b in batch], [b.corpus for b in batch],
        [b.complete for b in batch], [0] * len(batch),
        [b.results is not None and b.results.suffix != ".jsonl" for b in batch],
    ]  # fmt: skip
    db.execute(f"INSERT INTO bundles SELECT {', '.join('unnest(?)' for _ in columns)}", columns)
    _remember_environments(db, batch, numbers)
    files = [
        (number, one.label, str(one.results))
        for number, one in zip(numbers, batch, strict=True)
        if one.results is not None
    ]
    problems += [
        printable(f"{one.folder} has no results.jsonl") for one in batch if one.results is None
    ]
    for kind in (".jsonl", ".gz", ".zst"):
        _read_results(db, [file for file in files if file[2].endswith(kind)], problems)


def _remember_environments(
    db: duckdb.DuckDBPyConnection, batch: Sequence[BundleSource], numbers: Sequence[int]
) -> None:
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
    db.execute(
        "CREATE OR REPLACE TEMP TABLE told AS SELECT unnest(?) AS bundle, unnest(?) AS label, "
        "unnest(?) AS backend, unnest(?) AS name, unnest(?) AS value", columns,
    )  # fmt: skip
    db.execute(
        "INSERT INTO hosts SELECT nextval('numbers'), * FROM (SELECT DISTINCT label, backend "
        "FROM told) ANTI JOIN hosts USING (label, backend)"
    )
    db.execute(
        "INSERT INTO identities SELECT bundle, env, name, value "
        "FROM told JOIN hosts USING (label, backend)"
    )
    db.execute("DROP TABLE told")


def _read_results(
    db: duckdb.DuckDBPyConnection, files: Sequence[tuple[int, str, str]], problems: list[str]
) -> None:
    """Read the rows of some files, all with the same compression."""
    if not files:
        return
    columns = [list(column) for column in zip(*files, strict=True)]
    db.execute(
        "CREATE OR REPLACE TEMP TABLE files AS SELECT unnest(?) AS bundle, "
        "unnest(?) AS label, unnest(?) AS file",
        columns,
    )
    max_results = sum(
        FEW + length_of(Path(path)) // (64 if path.endswith(".jsonl") else 4)
        for _, _, path in files
    )
    length = sum(length_of(Path(path)) for _, _, path in files)
    plain = length * (1 if files[0][2].endswith(".jsonl") else RATIO)
    with time_limit(db, SECONDS + plain / BYTES_PER_SECOND):
        ((count,),) = db.execute(
            INCOMING,
            [list(VERDICTS), [_escape_glob(path) for _, _, path in files], max_results],
        ).fetchall()
    if count == max_results:  # an untrusted file may decompress to any size
        raise BundleError(f"more than {max_results:,} results in {length:,} bytes")
    _count_damage(db, files, problems)
    (counts,) = db.execute(NAMES).fetchall()
    for (name, limit), number in zip(MAX_NAMES.items(), counts, strict=True):
        if (number or 0) > limit:
            raise BundleError(f"{number:,} names of {name}s: more than {limit:,} are no run's")
    for statement in TAKE.split(";\n"):
        db.execute(statement)
    (duplicates,) = db.execute(
        "SELECT count(*) - count(DISTINCT (bundle, env, item)) FROM numbered"
    ).fetchall()[0]
    if duplicates:
        db.execute(
            "CREATE OR REPLACE TEMP TABLE numbered AS "
            "SELECT DISTINCT ON (bundle, env, item) * FROM numbered"
        )
    insert, details, *drop = PUT.strip().split(";\n")
    db.execute(insert)
    db.execute(details, [TOLD])
    for statement in drop:
        db.execute(statement)


def _count_damage(
    db: duckdb.DuckDBPyConnection, files: Sequence[tuple[int, str, str]], problems: list[str]
) -> None:
    """Drop rows that are no results, and tell how many they are."""
    rows = db.execute(
        f"SELECT bundle, count(*) FROM incoming WHERE NOT ({WHOLE}) OR verdict IS NULL GROUP BY 1"
    ).fetchall()
    db.execute(f"DELETE FROM incoming WHERE ({WHOLE}) IS NOT true")
    paths = {number: Path(path) for number, _, path in files}
    for number, many in rows:
        lines = many - _incomplete_last_lines(paths[number])
        if lines > 0:
            noun = "lines" if lines > 1 else "line"
            problems.append(printable(f"{paths[number]}: {lines:,} damaged {noun} passed over"))
            db.execute("UPDATE bundles SET damaged = ? WHERE bundle = ?", [lines, number])


def length_of(path: Path | None) -> int:
    """The bytes of a file, if there is one."""
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
