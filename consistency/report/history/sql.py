"""SQL queries of a store: read only, one SELECT, and no access to anything but the views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.verdict import VERDICTS
from ...errors import UsageError, did_you_mean
from .snapshot import NAME_OF, RANK_OF, RANKS, stamp
from .store import Store

if TYPE_CHECKING:
    import duckdb

_LATEST = "(SELECT env, arg_max(bundle, created) AS bundle FROM nights_ GROUP BY env)"
_KEY = (
    "(SELECT value FROM identities k WHERE k.bundle = n.bundle AND k.env = n.env AND k.name = "
    "'{}' LIMIT 1) AS {}"
)
_SAID = ", ".join(_KEY.format(name, name) for name in ("device", "driver", "torch"))
_VIEWS = f"""
CREATE TEMP VIEW nights_ AS SELECT DISTINCT o.env, o.bundle, b.created FROM (SELECT DISTINCT env,
    bundle FROM outcomes) o
    JOIN bundles b USING (bundle);
CREATE TEMP VIEW nights AS SELECT e.label || ' · ' || e.backend AS environment, e.label, e.backend,
    n.created::DATE AS night,
    n.created,
    b.path, b.corpus, b.complete, b.damaged AS damaged_lines, {_SAID}
    FROM nights_ n JOIN hosts e USING (env) JOIN bundles b USING (bundle);
CREATE TEMP VIEW environments AS SELECT e.label || ' · ' || e.backend AS environment, e.label,
    e.backend, m.nights, m.first_night,
    m.last_night, {_SAID} FROM {_LATEST} n JOIN hosts e USING (env)
    JOIN (SELECT env, count(*) AS nights, min(created)::DATE AS first_night, max(created)::DATE AS
        last_night FROM nights_
    GROUP BY env) m
    USING (env);
CREATE TEMP VIEW identity AS SELECT e.label || ' · ' || e.backend AS environment, b.created::DATE
    AS night, b.created,
    k.name, k.value
    FROM identities k JOIN hosts e USING (env) JOIN bundles b USING (bundle);
CREATE TEMP VIEW results AS SELECT e.label || ' · ' || e.backend AS environment, e.label,
    e.backend, b.created::DATE AS
    night, b.created,
    g.operator, g.family, g.dtype, g.direction, i.case_id, ({NAME_OF!r})[o.verdict + 1] AS verdict,
    ({[RANKS[rank] for rank in RANK_OF]!r})[o.verdict + 1] AS rank, o.fails, o.rho, d.sentence,
        d.cause, d.share,
    d.workaround, b.path
    FROM outcomes o JOIN hosts e USING (env) JOIN bundles b USING (bundle) JOIN items i USING
        (item) JOIN groups g USING (grp)
    LEFT JOIN details d ON d.bundle = o.bundle AND d.env = o.env AND d.item = o.item;
CREATE TEMP VIEW cases AS SELECT i.case_id, g.operator, g.family, g.dtype, g.direction FROM items i
    JOIN groups g USING (grp);
CREATE TEMP VIEW changes AS SELECT e.label || ' · ' || e.backend AS environment, e.label,
    e.backend, b.created::DATE AS
    night, b.created,
    t.kind, t.regression, g.operator, g.family, g.dtype, g.direction, t.cases, t.of_cases,
        t.before, t.after, t.case_id,
    t.environment_changed, t.what_changed, t.nights, b.path
    FROM change_points t JOIN hosts e USING (env) JOIN bundles b USING (bundle)
    JOIN groups g USING (grp);
CREATE TEMP VIEW cells AS SELECT e.label || ' · ' || e.backend AS environment, e.label, e.backend,
    b.created::DATE AS night,
    g.operator,
    g.family, g.dtype, g.direction, c.verdict, c.rank, c.rho, c.cases, c.of_cases, c.case_id,
        c.sentence, c.cause, c.workaround,
    s.created::DATE AS since, c.flaky, b.path
    FROM stored_cells c JOIN hosts e USING (env) JOIN bundles b USING (bundle)
    JOIN groups g USING (grp)
    LEFT JOIN bundles s ON s.bundle = c.since
"""
VIEWS = ("results", "cells", "changes", "nights", "environments", "identity", "cases")
assert len(NAME_OF) == len(VERDICTS) + 1


@dataclass(frozen=True, slots=True)
class Answer:
    """Names of columns, and rows."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


def current(store: Store) -> bool:
    """Whether the saved change points and cells belong to the store's present bundles."""
    tables = {
        name for (name,) in store.db.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }
    if not tables >= {"stamps", "change_points", "stored_cells"}:
        return False
    return store.db.execute("SELECT stamp FROM stamps").fetchall() == [(stamp(store),)]


def ask(store: Store, sql: str) -> Answer:
    """The answer to one SELECT. It locks the store's connection. Raises UsageError with one
    line."""
    import duckdb

    db = _read_only_views(store)
    try:
        statements = db.extract_statements(sql)
    except TypeError:  # lone surrogates, which stand for bytes that are not UTF-8
        raise UsageError("the question cannot be read: it is not text in UTF-8") from None
    except duckdb.Error as error:
        raise UsageError(f"the question cannot be read: {_series(error)}") from None
    if len(statements) != 1 or statements[0].type not in (
        duckdb.StatementType.SELECT,
        duckdb.StatementType.EXPLAIN,
    ):
        raise UsageError(f"a question is one SELECT over the views {', '.join(VIEWS)}")
    try:
        cursor = db.execute(statements[0])
        return Answer(tuple(column[0] for column in cursor.description or ()), _rows(cursor))
    except duckdb.Error as error:
        raise UsageError(_error_text(error)) from None


def _rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    import duckdb

    try:
        while rows := cursor.fetchmany(4096):
            yield from rows
    except duckdb.Error as error:
        raise UsageError(_error_text(error)) from None


def _read_only_views(store: Store) -> duckdb.DuckDBPyConnection:
    import duckdb

    if store.path is not None:
        store.db.close()
        store.db = duckdb.connect(str(store.path), read_only=True)
    for statement in _VIEWS.strip().split(";\n"):
        store.db.execute(statement)
    for setting in (
        "enable_external_access = false",
        "allow_community_extensions = false",
        "lock_configuration = true",
    ):
        store.db.execute(f"SET {setting}")
    return store.db


def _error_text(error: Exception) -> str:
    words = _series(error)
    if "Table with name" in words and "does not exist" in words:
        name = words.split("Table with name ")[1].split(" ")[0]
        return f"there is no view {name!r}{did_you_mean(name, VIEWS)}; there are {', '.join(VIEWS)}"
    if "file system operations are disabled" in words or "disabled by configuration" in words:
        return f"questions reach no files; there are the views {', '.join(VIEWS)}"
    return f"the question cannot be answered: {words}"


def _series(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().split("\n") if line.strip()]
    return " ".join(line for line in lines if not line.startswith(("LINE", "^")))[:300]
