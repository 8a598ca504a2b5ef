"""The statements that lay out a store and bring the results of bundles into it."""

from __future__ import annotations

import zlib

from ...core.verdict import OLD_VERDICTS, VERDICTS
from ...diagnose.cause_vote import EXPERIMENTS, WHOLE_CASE
from ...judge.file_vocabulary import OLD_FAMILIES

MAX_NAMES = {"operator": 3_000, "dtype": 64, "backend": 64}  # in a bundle
ALLOWED = len(VERDICTS)  # the number of an allowed reduced precision
NAME, SENTENCE = 160, 400  # stored characters
SCHEMA = """
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
    rho FLOAT, again UTINYINT);
CREATE TABLE details (bundle INTEGER, env INTEGER, item INTEGER, sentence VARCHAR, cause VARCHAR,
    share FLOAT, workaround VARCHAR,
    expectation VARCHAR, first VARCHAR, words VARCHAR, rivals VARCHAR, weight FLOAT);
CREATE SEQUENCE numbers;
"""
# Tables that the stores of all versions have.
TABLES = frozenset({"about", "bundles", "hosts", "identities", "groups", "items", "outcomes"})
VERSION = zlib.crc32(SCHEMA.encode())  # another layout is another version
_COLUMNS = {
    "operator": "VARCHAR", "dtype": "VARCHAR", "direction": "VARCHAR", "backend": "VARCHAR",
    "verdict": "VARCHAR",
    "fails": "BOOLEAN",
    "shrunk": "BOOLEAN", "case_id": "VARCHAR", "family": "VARCHAR", "explanation": "VARCHAR",
    "cause": "VARCHAR", "share": "VARCHAR",
    "workaround": "VARCHAR", "expectation": "JSON",
    "metrics": "STRUCT(rho_max VARCHAR, differing VARCHAR, special_mismatches VARCHAR)",
    "evidence": "JSON",
}  # fmt: skip
_QUIET = ("exact", "rounding", "inconclusive", "unsupported")  # their sentences are not kept
_UNTOLD = (*_QUIET, *(old for old, new in OLD_VERDICTS.items() if new in _QUIET))
_RENAMED = " ".join(f"WHEN {old!r} THEN {new!r}" for old, new in OLD_VERDICTS.items())
_RENAMED_FAMILIES = " ".join(f"WHEN {old!r} THEN {new!r}" for old, new in OLD_FAMILIES.items())
# What repeats of a failing case gave, in the numbers of :mod:`.series`; one repeat shows little.
_COUNT = "TRY_CAST(r.evidence->>'$.{}' AS INTEGER)"
_AGAIN = (
    f"CASE WHEN r.fails IS NOT true THEN 0 WHEN {_COUNT.format('within')} > 0 THEN 1 "
    f"WHEN coalesce({_COUNT.format('repeats')}, 0) < 2 THEN 0 "
    f"WHEN {_COUNT.format('other')} > 0 THEN 2 ELSE 3 END::UTINYINT"
)
# A failing result's vote on the cause, as diagnose.cause_vote counts it; of other results nothing.
_FIRST = (
    f"CASE WHEN r.fails THEN left(coalesce(r.evidence->>'$.initial_verdict', "
    f"r.evidence->>'$.first', r.verdict), {NAME}) ELSE '' END"
)
_WORDS = f"CASE WHEN r.fails THEN left(r.evidence->>'$.cause.words', {NAME}) END"
_RIVALS = (
    f"CASE WHEN r.fails THEN left(array_to_string(r.evidence->>'$.rivals[*]', ','), {SENTENCE}) END"
)
_WRONG = (
    "coalesce(TRY_CAST(r.metrics.special_mismatches AS DOUBLE), "
    "TRY_CAST(r.metrics.differing AS DOUBLE), 0)"
)
_WHOLE = f"r.cause IN ({', '.join(f'{name!r}' for name in sorted(EXPERIMENTS))}) OR {_WRONG} <= 0"
_WEIGHT = (
    "CASE WHEN r.fails IS NOT true OR (r.evidence IS NULL AND coalesce(r.cause, '') = '') THEN 0 "
    f"WHEN {_WHOLE} THEN 1 "
    f"ELSE least({_WRONG}, {WHOLE_CASE}) / {WHOLE_CASE} END::FLOAT"
)
INCOMING = f"""
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
    CASE WHEN r.verdict NOT IN {_UNTOLD} THEN left(r.explanation, {SENTENCE}) END AS sentence,
    left(r.cause, {NAME}) AS cause, TRY_CAST(r.share
        AS FLOAT) AS share,
    left(r.workaround, {SENTENCE}) AS workaround, left(r.expectation::VARCHAR, {SENTENCE}) AS
        expectation,
    coalesce(r.shrunk, false) AS shrunk, {_AGAIN} AS again,
    {_FIRST} AS first, {_WORDS} AS words, {_RIVALS} AS rivals, {_WEIGHT} AS weight
FROM read_json(?, columns = {_COLUMNS!r}, format = 'newline_delimited', ignore_errors = true,
    filename = true,
    maximum_object_size = 16777216) r JOIN files f ON f.file = r.filename LIMIT ?
"""
WHOLE = "operator IS NOT NULL AND dtype IS NOT NULL " \
    "AND direction IN ('forward', 'backward') AND backend IS NOT NULL " \
    "AND verdict IS NOT NULL AND case_id IS NOT NULL"  # fmt: skip
NAMES = (
    f"SELECT {', '.join(f'max({name})' for name in MAX_NAMES)} FROM (SELECT "
    f"{', '.join(f'count(DISTINCT {name}) AS {name}' for name in MAX_NAMES)} FROM incoming "
    "GROUP BY bundle)"
)
TAKE = """
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
DROP TABLE incoming;
INSERT INTO items SELECT nextval('numbers'), grp, case_id FROM (SELECT DISTINCT grp, case_id FROM
    known) ANTI JOIN items
    USING (grp, case_id);
CREATE OR REPLACE TEMP TABLE numbered AS SELECT k.*, i.item FROM known k JOIN items i USING (grp,
    case_id);
DROP TABLE known;
"""
PUT = """
INSERT INTO outcomes SELECT bundle, env, item, verdict, fails, rho, again FROM numbered ORDER BY
    env, bundle, item;
INSERT INTO details SELECT bundle, env, item, sentence, coalesce(cause, ''), share,
    coalesce(workaround, ''),
    coalesce(expectation, ''), first, coalesce(words, ''), coalesce(rivals, ''), weight
    FROM numbered WHERE verdict IN (SELECT unnest(?)) ORDER BY env, bundle, item;
DROP TABLE numbered;
"""
TOLD = [i for i, name in enumerate(VERDICTS) if name not in _QUIET] + [ALLOWED]
