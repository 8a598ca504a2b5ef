"""The file of a store: laid out where it is new, made anew where it has an older layout."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.regular_files import regular
from ...errors import UsageError
from .store_statements import SCHEMA, TABLES, VERSION

if TYPE_CHECKING:
    import duckdb


def opened(path: Path | None, *, made: bool) -> duckdb.DuckDBPyConnection:
    """The database in a file, or in memory; ``made``: the file must be a store already. Raises
    UsageError where it is something else, or cannot be written."""
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
        if made or (tables and not tables >= TABLES):
            db.close()
            raise UsageError(
                f"{path} is a store of another version: `consistency matrix` makes it anew"
                if tables >= TABLES
                else f"{path} is a database of something else; name another file with --store"
            )
        if tables:  # an older layout: everything is read again
            db.close()
            path.unlink()
            db = duckdb.connect(str(path))
    for statement in SCHEMA.strip().split(";\n"):
        db.execute(statement)
    db.execute("INSERT INTO about VALUES (?)", [VERSION])
    return _quiet(db)


def _quiet(db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    db.execute("SET enable_progress_bar = false")
    db.execute("SET autoinstall_known_extensions = false")  # nothing is fetched from anywhere
    return db


def first_line(error: Exception) -> str:
    """What a database says of an error, in one line."""
    return str(error).strip().split("\n")[0][:200]
