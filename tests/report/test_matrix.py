"""Many bundles: what is read of them, what has changed since when, and questions about them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consistency.core.verdict import VERDICTS
from consistency.errors import UsageError
from consistency.report.history import series
from consistency.report.history import sql as questions
from consistency.report.history import store as store_module
from consistency.report.history.bundle_sources import bundles
from consistency.report.history.filter_query import parse
from consistency.report.history.pages import latest_page, operator_page
from consistency.report.history.query_entries import entries, names
from consistency.report.history.snapshot import Snapshot, snapshot
from consistency.report.history.store import Store
from tests.support.commands import command
from tests.support.nights import night, quiet, row
from tests.support.paths import DATA


def stored(folder: Path) -> Store:
    held = Store()
    held.take(bundles([folder])[0])
    return held


def made(folder: Path) -> Snapshot:
    return snapshot(stored(folder))


def told(found: Snapshot) -> list[tuple[str, str, int, str]]:
    return [
        (found.environments[t.env].label, found.groups[t.group].operator, t.run,
        t.kind) for t in found.change_points
    ]  # fmt: skip


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines over 14 nights: on the last one a driver makes tan fail and exp err more; sin is
    flaky."""
    folder = tmp_path_factory.mktemp("nightly")
    for number in range(14):
        last = number == 13
        rows = [*quiet("exp", cases=10, rho=0.25 * (3 if last else 1)), *quiet("cos")]
        tan = quiet("tan")
        if last:
            words = {"cause": "tf32-inputs", "share": 0.99, "workaround": "float32 inputs"}
            tan[2] = row("tan", tan[2]["case_id"], "divergent", 2300.0, **words)
        sin = quiet("sin")
        if number in (1, 4, 5, 9, 11, 12):
            sin[0] = row("sin", sin[0]["case_id"], "divergent", 4.0)
        night(folder, number, [*rows, *tan, *sin], driver="31.2" if last else "31.1")
        night(folder, number, [*quiet("tan"), *quiet("exp")], label="other", driver="24.5")
    return folder


def test_what_happened_on_the_last_night(nightly: Path) -> None:
    found = made(nightly)
    assert sorted(told(found)) == [("lab", "exp", 13, "error_grew"), ("lab", "tan", 13, "new")]
    cell = next(
        c
        for c in found.cells.values()
        if c.verdict == "divergent" and found.groups[c.group].operator == "tan"
    )
    assert (cell.since, cell.rho, cell.cases, cell.of, cell.cause) == (
        13,
        2300.0,
        1,
        6,
        "tf32-inputs",
    )
    assert cell.workaround == "float32 inputs"
    environment = found.environments[cell.env]
    assert environment.moved[13] == (("driver", "31.1", "31.2"),)
    flaky = next(
        c for (env, group), c in found.cells.items() if found.groups[group].operator == "sin"
    )
    assert flaky.flaky == (6, 14)
    assert len(found.last_change_points()) == 2


def test_a_night_on_which_nobody_probed_is_no_change_of_the_environment() -> None:
    plain = {"driver": "31.1"}
    probed = plain | {
        "fingerprint.float64": "53 bits",
        "fingerprint.bmm float32 order": "sequential 8",
        "fingerprint.hash": "0a",
    }
    unsure = {name: told for name, told in probed.items() if "order" not in name} | {
        "fingerprint.hash": "0b"
    }
    other = probed | {"fingerprint.float64": "24 bits", "fingerprint.hash": "0c"}
    moved = series._moved((probed, plain, probed, unsure, probed, other, {"driver": "31.2"}))
    assert [[name for name, _, _ in rows] for rows in moved] == [
        [], [], [], [], [], ["fingerprint.float64", "fingerprint.hash"], ["driver"],
    ]  # fmt: skip


def test_without_a_change_of_the_environment_it_is_news_from_the_second_night_on(
    tmp_path: Path,
) -> None:
    for number in range(20):
        rows = quiet()
        if number >= 18:
            rows[0] = row("exp", rows[0]["case_id"], "divergent", 9.0)
        night(tmp_path, number, rows)
    assert told(made(tmp_path)) == [("lab", "exp", 18, "new")]
    shutil.rmtree(tmp_path / "lab" / "019")
    found = made(tmp_path)
    assert told(found) == []
    (cell,) = found.cells.values()
    assert cell.transient == 1
    assert cell.since == 18


def test_only_the_same_cases_are_compared(tmp_path: Path) -> None:
    """A corpus to which cases with larger errors were added has not drifted; nor has a night that
    had time for fewer."""
    for number in range(8):
        rows = quiet(cases=4)
        if number >= 5:
            rows += [row("exp", f"exp-added{i}", rho=0.9) for i in range(12)]
        night(tmp_path, number, rows if number != 6 else rows[2:3])
    assert told(made(tmp_path)) == []


def test_lost_and_found_again(tmp_path: Path) -> None:
    for number in range(12):
        lost = 6 <= number < 10
        rows = [
            *quiet("cos"),
            *(row("exp", r["case_id"], "unsupported", None) if lost else r for r in quiet()),
        ]
        night(tmp_path, number, rows, driver="31.2" if lost else "31.1")
    assert told(made(tmp_path)) == [("lab", "exp", 6, "untested"), ("lab", "exp", 10, "tested")]


def test_a_fix_and_a_failure_without_a_number(tmp_path: Path) -> None:
    for number in range(12):
        rows = quiet()
        if number < 7:
            rows[1] = row("exp", rows[1]["case_id"], "special-values", None)
        night(tmp_path, number, rows)
    assert told(made(tmp_path)) == [("lab", "exp", 7, "fixed")]


def test_a_machine_in_trouble_is_one_line_and_not_a_failure_of_every_operator(
    snapshot: Snapshot,
    tmp_path: Path,
) -> None:
    names = [f"op{i}" for i in range(12)]

    def rows(lost: int) -> list[dict[str, Any]]:
        whole = [one for name in names for one in quiet(name)]
        return [
            row(one["operator"], one["case_id"], "timeout", None) if i % 6 < lost else one
            for i, one in enumerate(whole)
        ]

    for number in range(9):
        night(
            tmp_path,
            number,
            rows(2 if number >= 7 else 0),
            driver="31.2" if number >= 7 else "31.1",
        )
    found = made(tmp_path)
    assert told(found) == []
    cell = next(iter(found.cells.values()))
    assert (cell.verdict, cell.cases, cell.of, cell.since) == ("timeout", 2, 6, 7)
    latest = latest_page(found, {})
    snapshot(latest["summary"], "1")
    assert latest["bad"]
    (line,) = latest["troubled"]
    snapshot(line["words"], "2")
    assert (line["since"], line["why"]) == (
        found.environments[cell.env].runs[7].name,
        "driver 31.1 → 31.2",
    )
    # The next night all is well again, and that is no news of the operators either.
    night(tmp_path, 9, rows(0), driver="31.2")
    found = made(tmp_path)
    assert told(found) == []
    assert latest_page(found, {})["troubled"] == []


def test_an_operator_that_hangs_is_its_own_news(tmp_path: Path) -> None:
    for number in range(4):
        hung = [
            row("tan", one["case_id"], "timeout", None) if number == 3 else one
            for one in quiet("tan")
        ]
        night(tmp_path, number, [*quiet("exp"), *hung], driver="31.2" if number == 3 else "31.1")
    found = made(tmp_path)
    assert told(found) == [("lab", "tan", 3, "new")]
    assert latest_page(found, {})["troubled"] == []


def test_damage_costs_only_itself(tmp_path: Path) -> None:
    """Garbage in the middle, a killed run's last line, wrong types, no results, another format, a
    copy, a link out of it."""
    fine = night(tmp_path, 0, quiet())
    garbage = night(tmp_path, 1, quiet())
    lines = (garbage / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    lines[1:3] = ["{garbage\n", '{"operator": 5, "metrics": "none"}\n', "[1, 2]\n", "\x00\x01\n"]
    (garbage / "results.jsonl").write_text(
        "".join(lines) + '{"operator": "exp", "dty', encoding="utf-8"
    )
    half = night(tmp_path, 2, quiet())
    (half / "results.jsonl").write_bytes((half / "results.jsonl").read_bytes()[:-40])
    (night(tmp_path, 3, quiet()) / "results.jsonl").unlink()
    (night(tmp_path, 4, quiet()) / "bundle.json").write_text(
        '{"format": 99, "settings": {}}', encoding="utf-8"
    )
    (night(tmp_path, 5, quiet()) / "bundle.json").write_text("{", encoding="utf-8")
    shutil.copytree(fine, tmp_path / "copy" / "of" / "it")
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps(row("secret", "secret-1")) + "\n", encoding="utf-8")
    linked = night(tmp_path, 6, quiet())
    (linked / "results.jsonl").unlink()
    (linked / "results.jsonl").symlink_to(secret)
    found, problems = bundles([tmp_path])
    held = Store()
    held.take(found)
    text = "\n".join([*problems, *held.problems])
    for words in (
        "001/results.jsonl: 4 damaged lines passed over",
        "format 99",
        "the same run",
        "003 has no results.jsonl",
        "is a link",
    ):
        assert words in text.replace("\\", "/"), text
    assert "002/results.jsonl:" not in text.replace("\\", "/"), "a killed run is no damage"
    counts = dict(
        held.db.execute(
            "SELECT path, count(*) FROM outcomes JOIN bundles USING (bundle) GROUP BY 1"
        ).fetchall()
    )
    assert {Path(path).name: many for path, many in counts.items()} in (
        {"000": 6, "001": 4, "002": 5}, {"it": 6, "001": 4, "002": 5},
    )  # fmt: skip


def test_too_little_memory_for_reading_is_no_damage(
    nightly: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []
    for limit in ("160MB", "2MB"):
        monkeypatch.setattr(store_module, "READING_MEMORY", limit)
        with Store(tmp_path / f"{limit}.duckdb").readable() as store:
            store.take(bundles([nightly])[0])
            assert store.problems == []
            held.append(store.db.execute("SELECT count(*), sum(rho) FROM outcomes").fetchall())
    assert held[0] == held[1]
    assert held[0][0][0] > 0


def test_only_what_is_new_or_changed_is_read_again(tmp_path: Path) -> None:
    nights = tmp_path / "nights"
    for number in range(3):
        night(nights, number, quiet())
    path = tmp_path / "kept.duckdb"

    def again() -> int:
        held = Store(path)
        found = bundles([nights])[0]
        held.take(found)
        held.keep_only(found)
        fresh, (rows,) = held.fresh, held.db.execute("SELECT count(*) FROM outcomes").fetchall()[0]
        held.close()
        assert rows == 6 * len(found) + (1 if (nights / "more").exists() else 0)
        return fresh

    assert [again(), again()] == [3, 0]
    night(nights, 3, quiet())
    assert again() == 1
    with (nights / "lab" / "003" / "results.jsonl").open(
        "a", encoding="utf-8"
    ) as stream:  # it was still being written
        stream.write(json.dumps(row("exp", "exp-late")) + "\n")
    (nights / "more").mkdir()
    assert again() == 1
    shutil.rmtree(nights / "lab" / "001")
    assert again() == 0
    assert again() == 0


def test_results_may_be_packed(tmp_path: Path) -> None:
    import duckdb

    for number, suffix in enumerate((".gz", ".zst")):
        here = night(tmp_path, number, quiet())
        plain = here / "results.jsonl"
        if suffix == ".gz":
            (here / "results.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
        else:
            packed = here / "results.jsonl.zst"
            duckdb.connect().execute(
                f"COPY (SELECT * FROM read_csv('{plain}', columns={{'line': 'VARCHAR'}}, "
                f"delim='\x01', quote='', escape='', header=false)) TO '{packed}' (FORMAT CSV, "
                "HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01', COMPRESSION zstd)"
            )
        plain.unlink()
    held = stored(tmp_path)
    assert held.problems == []
    assert held.db.execute("SELECT count(*) FROM outcomes").fetchall() == [(12,)]


def test_a_packed_file_with_far_too_many_results_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consistency.report.history import store_reading

    monkeypatch.setattr(store_reading, "FEW", 100)
    here = night(tmp_path, 0, quiet())
    night(tmp_path, 1, quiet())
    plain = here / "results.jsonl"
    (here / "results.jsonl.gz").write_bytes(
        gzip.compress(plain.read_bytes().splitlines(keepends=True)[0] * 5000)
    )
    plain.unlink()
    held = stored(tmp_path)
    (problem,) = held.problems
    assert problem.startswith(f"passed over: {here} cannot be read: more than ")
    assert held.db.execute("SELECT count(*) FROM outcomes").fetchall() == [(6,)]


def test_names_with_brackets_and_odd_numbers(tmp_path: Path) -> None:
    odd = [
        row("exp", "exp-1", "divergent", "nan"),
        row("exp", "exp-2", "divergent", "inf"),
        row("exp", "exp-3", rho=-1.0),
    ]
    night(tmp_path / "a[b]*?'c", 0, odd)
    held = stored(tmp_path)
    assert held.problems == []
    assert (
        sorted(map(str, (r for (r,) in held.db.execute("SELECT rho FROM outcomes").fetchall())))[0]
        == "0.0"
    )
    assert len(snapshot(held).cells) == 1


def test_a_cell_s_command_names_the_backend_as_it_was_spelled(tmp_path: Path) -> None:
    fails = [row("exp", "exp-1", "divergent", 12.0), *quiet("sum")]
    night(tmp_path, 0, fails, settings={"seed": 0, "specs": {"cpu": "my backends.py:Mine"}})
    night(tmp_path, 0, fails, label="other", settings={"seed": 0, "specs": {}})
    told = {
        one["label"]: one["command"] for one in entries(made(tmp_path)) if one["operator"] == "exp"
    }
    assert told["lab"].endswith(" --id exp-1 --backend 'my backends.py:Mine' --direction forward")
    assert told["other"].endswith(" --id exp-1 --backend cpu --direction forward")


@pytest.mark.parametrize("before", [1, 2, 5, 14])
def test_a_first_failure_is_no_flake_and_not_known(
    snapshot: Snapshot, before: int, tmp_path: Path
) -> None:
    """Where few nights came before, it could as well be one that comes and goes; nobody has seen it
    go."""
    for number in range(before):
        night(tmp_path, number, [row("exp", "exp-1"), *quiet("sum")])
    night(tmp_path, before, [row("exp", "exp-1", "divergent", 12.0), *quiet("sum")])
    matrix = made(tmp_path)
    assert {one["operator"]: (one["kind"], one["flaky"]) for one in entries(matrix)} == {
        "exp": ("transient", None),
        "sum": ("", None),
    }
    latest = latest_page(matrix, {})
    snapshot(latest["summary"], "1")
    snapshot([part["title"] for part in latest["parts"]], "2")
    night(tmp_path, before + 1, [row("exp", "exp-1"), *quiet("sum")])
    snapshot(latest_page(made(tmp_path), {})["summary"], "3")


def nights_of(folder: Path, pattern: str, cases: int = 20, failing: int = 1, **more: Any) -> None:
    """A night for each letter: P, all pass; F, the first ``failing`` cases fail, each with its own
    error; f, with another one each night; C, after a change of the driver."""
    driver = "31.1"
    for number, letter in enumerate(pattern):
        driver = "31.2" if letter == "C" else driver
        rows = quiet("exp", cases=cases)
        for i in range(failing if letter != "P" else 0):
            error = 336.0 + i if letter != "f" else 4.0 ** (1 + number * 7 % 5)
            rows[i] = row("exp", rows[i]["case_id"], "divergent", error, **more)
        night(folder, number, [*rows, *quiet("sum")], driver=driver)


SAME = {"evidence": {"initial_verdict": "divergent", "repeats": 3, "other": 0, "within": 0}}
PASSED = {"evidence": {"initial_verdict": "divergent", "repeats": 3, "other": 2, "within": 2}}


@pytest.mark.parametrize(
    ("pattern", "failing", "more", "expected"),
    [
        ("PPF", 18, {}, "new, 1 night"),  # many cases at once
        ("PPFF", 18, {}, "new, 2 nights in a row"),
        ("PPFFF", 18, {}, ""),  # told twice; known from then on
        ("PPF", 1, {}, "not certain"),
        ("PPFF", 1, {}, "new, 2 nights in a row"),  # with the same error
        ("PPPPPF", 1, SAME, "new, 1 night"),  # repeated in the run
        ("PPF", 1, SAME, "not certain"),
        ("PPFF", 1, SAME, "new, 2 nights in a row"),
        ("PPC", 1, {}, "new, 1 night"),
        ("PPff", 1, {}, "not certain"),  # another error each time
        ("PPfff", 1, {}, "not certain"),
        ("PPfffff", 1, {}, "new, 5 nights in a row"),
        ("PPPPPPPPPPPPff", 1, {}, "new, 2 nights in a row"),
        ("PPFPF", 1, {}, "flaky"),  # it came back
        ("PPFPF", 18, {}, "flaky"),
        ("PPF", 1, PASSED, "flaky"),
        ("PPFF", 1, PASSED, "flaky"),  # it came back within the run
        ("PPC", 1, PASSED, "flaky"),
        ("FFP", 1, {}, ""),  # may be mended
        ("PPPFFFFFFFFFFP", 1, {}, "flaky"),
    ],
)
def test_what_is_told_of_a_failure(
    pattern: str, failing: int, more: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    nights_of(tmp_path, pattern, failing=failing, **more)
    matrix = made(tmp_path)
    latest = latest_page(matrix, {})
    told = [line["age"] for part in latest["parts"] for line in part["rows"] if line["age"]]
    told += ["not certain" for part in latest["parts"] if part["kind"] == "transient"]
    (cell,) = [one for one in entries(matrix) if one["operator"] == "exp"]
    if cell["kind"] == "flaky":
        told.append("flaky")
    assert told == ([expected] if expected else [])
    assert latest["bad"] == expected.startswith("new")
    if "F" not in pattern[: pattern.rfind("P")] and "within" not in str(more):
        assert cell["flaky"] is None


def test_a_new_failure_is_listed_by_the_query_of_the_documentation(tmp_path: Path) -> None:
    nights_of(tmp_path, "PPFF", failing=18)
    held = stored(tmp_path)
    matrix = snapshot(held)
    (found,) = [one for one in entries(matrix) if parse("kind:new", (), VERDICTS).holds(one)]
    assert found["operator"] == "exp"
    sql = "SELECT kind, operator, cases, of_cases, nights FROM changes WHERE regression"
    assert list(questions.ask(held, sql).rows) == [("new", "exp", 18, 20, 2)]
    held.close()


@pytest.mark.parametrize("evidence", ["none", 5, [], {"repeats": "many"}, {"within": None}])
def test_evidence_that_cannot_be_read_is_no_evidence(evidence: object, tmp_path: Path) -> None:
    nights_of(tmp_path, "PPPPPPF", evidence=evidence)
    held = stored(tmp_path)
    assert held.problems == []
    assert held.db.execute("SELECT max(again) FROM outcomes").fetchall() == [(0,)]


def test_nights_are_counted_once_however_many_environments_there_are(tmp_path: Path) -> None:
    for number in range(4):
        rows = [*quiet(), *({**one, "backend": "numpy"} for one in quiet())]
        night(tmp_path, number, rows)
    assert latest_page(made(tmp_path), {})["nights"] == 4


def test_an_operator_s_page_begins_with_what_fails(tmp_path: Path) -> None:
    night(
        tmp_path,
        0,
        [
            row("exp", "exp-1", dtype="a"),
            row("exp", "exp-2", "divergent", dtype="b"),
            row("exp", "exp-3", dtype="c"),
        ],
    )
    matrix = made(tmp_path)
    kinds = operator_page(
        matrix, sorted(matrix.groups.values(), key=lambda group: group.dtype), {}
    )["kinds"]
    assert [kind["name"].split()[0] for kind in kinds] == ["b", "a", "c"]


def test_what_no_environment_tells_can_be_asked_for(tmp_path: Path) -> None:
    night(tmp_path, 0, quiet())
    known = names(made(tmp_path))
    for text in ("verdict:divergent backend:directml driver:>=31", "cudnn:>=9", "count:1(fail)"):
        assert not any(map(parse(text, known, VERDICTS).holds, entries(made(tmp_path))))


def test_a_bundle_of_format_1_counts_too() -> None:
    found = made(DATA / "bundle-format-1")
    assert len(found.cells) > 0


# --- questions


@pytest.fixture
def held(nightly: Path) -> Iterator[Store]:
    store = stored(nightly)
    snapshot(store)
    yield store
    store.close()


def test_every_view_answers(held: Store) -> None:
    for view in questions.VIEWS:
        answer = questions.ask(held, f"FROM {view}") if view == questions.VIEWS[0] else None
        if answer is not None:
            assert len(list(answer.rows)) == 14 * 40
            continue
        assert held.db.execute(f"SELECT count(*) FROM {view}").fetchall()[0][0] > 0, view


@pytest.mark.parametrize(("sql", "words"), [
    ("FROM resuls", "there is no view 'resuls'; did you mean results?"),
    ("FROM '/etc/passwd'", "there is no view|reach no files"),
    ("SELECT * FROM read_text('/etc/passwd')", "questions reach no files"),
    ("SELECT * FROM read_csv('x.csv')", "questions reach no files"),
    ("COPY (SELECT 1) TO 'out.csv'", "a question is one SELECT"),
    ("ATTACH 'other.db'", "a question is one SELECT"),
    ("SET enable_external_access = true", "a question is one SELECT"),
    ("INSTALL httpfs", "a question is one SELECT"),
    ("DELETE FROM outcomes", "a question is one SELECT"),
    ("SELECT 1; SELECT 2", "a question is one SELECT"),
    ("SELECT", "cannot be"),
    ("SELEC 1", "cannot be read"),
    ("SELECT nonsense FROM results", "nonsense"),
])  # fmt: skip
def test_questions_reach_nothing_else(held: Store, sql: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        list(questions.ask(held, sql).rows)
    assert "\n" not in str(error.value)


def test_the_command_asks_in_sql(snapshot: Snapshot, nightly: Path, tmp_path: Path) -> None:
    store = tmp_path / "kept.duckdb"
    sql = (
        "SELECT night, environment, kind, operator, what_changed FROM changes WHERE regression "
        "ORDER BY operator"
    )
    found = command("query {} {} --json --store {}", sql, nightly, store)
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(r["operator"], r["kind"], r["night"], r["environment"]) for r in rows] == [
        ("exp", "error_grew", "2026-10-14", "lab · cpu"), ("tan", "new", "2026-10-14", "lab · cpu"),
    ]  # fmt: skip
    snapshot(rows[0]["what_changed"])
    again = command("query {} {} --csv", sql, store)
    assert again.stdout.splitlines()[0] == "night,environment,kind,operator,what_changed"
    assert len(again.stdout.splitlines()) == 3
    table = command("query", "SELECT * FROM results", store)
    assert "… and 460 more rows" in table.stdout
    assert command("query", "SELECT * FROM changes WHERE false", store).stdout == "nothing\n"


def test_the_help_can_be_pasted(nightly: Path) -> None:
    """Each SQL of --help runs as it stands there."""
    text = re.sub(r"\s+", " ", command("query --help").stdout)
    found = re.findall(r'consistency query "(SELECT .*?)" nightly/', text)
    assert len(found) == 2
    for sql in found:
        assert command("query", sql, nightly).exit_code == 0
    assert command("query --filter count:1(fail)", nightly).stdout.count("lab · cpu") >= 1


@pytest.mark.parametrize(("words", "said"), [
    ([], "ask something"),
    (["SELECT 1", "no-such-folder"], "no-such-folder is not there"),
    (["SELECT 1", "."], "there is no bundle in ."),
    (["SELECT 1", "--json", "--csv", "."], "two forms of the same answer"),
    (["--filter", "verdikt:fail", "NIGHTLY"], "verdikt is no key; did you mean verdict?"),
    (["--filter", "verdict:fial", "NIGHTLY"], "fial is no verdict; did you mean fail?"),
])  # fmt: skip
def test_what_cannot_be_asked_is_one_line(
    words: list[str], said: str, nightly: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = command("query", *(str(nightly) if word == "NIGHTLY" else word for word in words))
    assert found.exit_code == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_a_file_that_is_no_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("not a database", encoding="utf-8")
    found = command("query", "SELECT 1", tmp_path / "x.duckdb")
    assert found.exit_code == 2
    assert "cannot open the store" in found.stderr


def test_expectations_of_the_last_night(snapshot: Snapshot, tmp_path: Path) -> None:
    """What a result met is told in words, and so are entries that nobody needs any more; damage
    says nothing."""
    known = {
        "entry": "DML-431",
        "place": "expectations.yaml:3",
        "verdict": "divergent",
        "max_rho": 50.0,
        "flaky": False,
    }
    rows = quiet()
    rows[0] = row("exp", rows[0]["case_id"], "known", 12.0, expectation=known)
    here = night(tmp_path, 0, rows)
    told = [
        {"entry": "DML-431", "place": "expectations.yaml:3", "about": "exp", "reason": "flushes",
        "ticket": "https://x.test/431",
         "expires": "2027-01-01", "failed": 1, "rho": 12.0},
        {"entry": "DML-7", "place": "expectations.yaml:9", "about": "var", "passed": 900,
        "enough": 7},
    ]  # fmt: skip
    (here / "expectations.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in told), encoding="utf-8"
    )
    found = made(tmp_path)
    (cell,) = found.cells.values()
    assert cell.verdict == "known"
    snapshot(cell.expectation, "1")
    snapshot(list(found.expectations), "2")
    (here / "expectations.jsonl").write_text('{"entry": []}\n{', encoding="utf-8")
    (cell,) = made(tmp_path).cells.values()
    assert cell.expectation == "otherwise divergent"


def test_a_damaged_store_is_told(nightly: Path, tmp_path: Path) -> None:
    """Its first block is as it should be; those with the tables are not."""
    path = tmp_path / "damaged.duckdb"
    command("query {} {} --store {}", "SELECT 1", nightly, path)
    data = bytearray(path.read_bytes())
    for place in range(3 * 4096, len(data), 997):
        data[place] ^= 255
    path.write_bytes(data)
    found = command("query", "SELECT * FROM results", path)
    assert found.exit_code == 2, found.stdout
    assert "damaged" in found.stderr or "cannot open the store" in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_question_that_is_no_text_is_told(nightly: Path) -> None:
    found = command("query {} {}", "SELECT '\udc80'", nightly)
    assert found.exit_code == 2
    assert "it is not text in UTF-8" in found.stderr


@pytest.mark.parametrize("form", ["", "--csv", "--json"])
def test_no_escape_sequence_reaches_the_terminal(nightly: Path, form: str) -> None:
    """Neither from a value nor from the name of a column, which is the question's own text."""
    found = command(f"query {{}} {{}} {form}", "SELECT '\x1b[31m', chr(155) || 'x'", nightly)
    assert found.exit_code == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", found.stdout)
