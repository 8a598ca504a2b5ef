"""Expectations in a run: what is excused, what is not, and what is said of entries that nobody
needs any more."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from click.testing import CliRunner

import consistency
from consistency.cli.main import main
from consistency.core.model import Case, Known, Result
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import Verdict
from consistency.diagnose.known_results import expected
from consistency.engine import engine
from consistency.engine.known.standing import (
    FILE,
    KnownStatus,
    counted,
    kept,
    more_often,
    together,
    told,
)
from consistency.engine.known.status import StatusCollector, StatusWriter, misnamed
from consistency.engine.resume import earlier_results
from consistency.errors import BundleError, ConfigurationError, UsageError
from consistency.judge.known import Expectation, json_schema, load
from consistency.judge.known.predicate import parse
from consistency.judge.tolerances import load as load_tolerances
from consistency.judge.tolerances import with_more
from consistency.report import bundles, page
from consistency.report.bundle_view import read
from consistency.storage import bundle
from tests.support.commands import command
from tests.support.paths import ROOT


class Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


class Faulty(consistency.Backend):
    """Wrong by a factor where the first operand is not contiguous and K > 4; ``size`` is the
    relative error."""

    name = "faulty"
    size = 1e-3

    def environment(self) -> dict[str, str]:
        return {"device": "Planted 3000", "driver": "31.0.2", "torch": torch.__version__}

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        found = super().call(operator, args, kwargs)
        return found * (1.0 + self.size) if self.wrong(args) else found

    def wrong(self, args: Any) -> bool:
        return not args[0].is_contiguous() and args[0].shape[-1] > 4


class Healthy(Faulty):
    def wrong(self, args: Any) -> bool:
        return False


class Worse(Faulty):
    size = 1e4


ENTRY: dict[str, Any] = {
    "operator": "matmul", "dtype": "float32", "direction": "forward", "backend": "faulty",
    "verdicts": ["divergent"],
    "when": "layout(arg0) != contiguous and K > 4", "reason": "planted", "ticket": "T-1",
}  # fmt: skip
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(*entries: dict[str, Any], name: str = "known.yaml", **changes: Any) -> Path:
        said = [
            {key: value for key, value in (entry | changes).items() if value is not None}
            for entry in entries or (ENTRY,)
        ]
        path = tmp_path / name
        path.write_text(
            yaml.dump({"expectations": said}, Dumper=Plain, sort_keys=False),
            encoding="utf-8",
            newline="\n",
        )
        return path

    return written


def run(
    backend: consistency.Backend,
    path: Path | tuple[Path, ...] = (),
    out: Path | None = None,
    resume: bool = False,
    **changes: Any,
) -> Any:
    """A run without shrinking, which takes seconds for each kind of failure."""
    asked: dict[str, Any] = {
        "dtypes": ["float32"],
        "directions": ("forward",),
        "examples": 45,
        "seed": 1,
        "shrink": False,
    }
    chosen = engine.configure(["matmul"], [backend], expectations=path, **(asked | changes))
    collect, keeper = engine.Collect(), StatusWriter(out)
    kept = [] if out is None else [bundles.writer(out, resume=resume), keeper, page.after(out)]
    engine.drive(
        chosen,
        [collect, *(kept or [keeper])],
        earlier_results(out) if resume and out is not None else None,
    )
    return engine.Run(tuple(collect.results), chosen, collect.seconds), {
        s.place: s for s in keeper.collector.standings()
    }


@pytest.fixture(scope="module")
def unexpected() -> Any:
    return run(Faulty(), seed=1)[0]


def again(results: Iterable[Result], path: Path) -> list[Result]:
    """Failures weighed with the entries of a file."""
    rules, backend = with_more(load_tolerances(), [path]), Faulty()
    return [expected(result, rules, backend) for result in results]


def test_a_planted_fault_is_excused_where_the_predicate_says_and_nowhere_else(
    write: Write, unexpected: Any
) -> None:
    assert len(unexpected.failures) >= 5
    found, standings = run(Faulty(), write(), seed=1)
    excused = [r for r in found.results if r.verdict.value == "known"]
    assert not found.failures
    assert {r.case.id for r in excused} == {r.case.id for r in unexpected.failures}
    assert all(r.explanation.startswith("known (planted; T-1): ") for r in excused)
    assert all(
        r.known is not None and (r.known.place, r.known.verdict) == ("known.yaml:2", "divergent")
        for r in excused
    )
    assert standings["known.yaml:2"].status == "happens"
    assert standings["known.yaml:2"].failed == len(excused)


@pytest.mark.parametrize(
    "change",
    [
        {"when": "layout(arg0) == contiguous"}, {"when": "K > 100000"},
        {"when": "layout(arg9) == strided"}, {"dtype": "float16"},
        {"operator": "mm"}, {"backend": "cpu"}, {"direction": "backward"},
        {"verdicts": ["structure"]}, {"device": "*Arc*"},
        {"driver": ">=32"}, {"torch": "<2.0"}, {"since": datetime.date(2999, 1, 1)},
        {"max_rho": 1.5}, {"reference_torch": "<2.0"},
    ],
)  # fmt: skip
def test_an_entry_about_something_else_excuses_nothing(
    write: Write, unexpected: Any, change: dict[str, Any]
) -> None:
    found = again(unexpected.failures, write(**change))
    assert not [r for r in found if r.verdict.value == "known"]


@pytest.mark.parametrize(
    "change",
    [
        {"device": "Planted*"}, {"driver": ">=31,<32"}, {"torch": ">=2.4"}, {"backend": "f*"},
        {"reference_torch": ">=2.4"},
    ],
)  # fmt: skip
def test_device_driver_and_torch_are_those_of_the_backend(
    write: Write, unexpected: Any, change: dict[str, Any]
) -> None:
    assert not [r for r in again(unexpected.failures, write(**change)) if r.verdict.fails]


def test_what_no_longer_happens_is_said_only_where_it_was_looked_at(write: Write) -> None:
    path = write(ENTRY, ENTRY | {"when": "K > 100000"}, ENTRY | {"operator": "bmm"})
    found, standings = run(Healthy(), path, seed=1)
    assert not found.failures
    assert {place: s.status for place, s in standings.items()} == {
        "known.yaml:2": "no longer happens"
    }
    (line,) = told(list(standings.values()))
    assert line.startswith(
        "no longer happens: remove expectation matmul float32 forward on faulty when "
        "layout(arg0) != contiguous"
    )
    assert "(known.yaml:2; T-1)" in line
    few = run(Healthy(), path, seed=1, examples=6)[1]
    assert [s.status for s in few.values()] in ([], ["not exercised"])


def test_of_two_entries_for_the_same_failures_neither_is_said_to_be_obsolete(write: Write) -> None:
    another = ENTRY | {"when": "layout(arg0) != contiguous and K > 0"}
    found, standings = run(Faulty(), write(ENTRY, another), seed=1)
    assert not found.failures
    assert sorted(s.status for s in standings.values()) == ["happens", "not exercised"]
    (second,) = (s for s in standings.values() if not s.failed)
    assert second.shared == sum(s.failed for s in standings.values())
    several = second.plus(second)
    assert several.passed >= several.enough
    assert several.status == "not exercised"


def test_an_expired_entry_excuses_nothing_and_the_failure_says_so(write: Write) -> None:
    path = write(expires=datetime.date(2026, 1, 31))
    found, standings = run(Faulty(), path, seed=1, examples=8)
    assert found.failures
    assert all(
        "; expected until 2026-01-31; expired (known.yaml:2: planted)" in r.explanation
        for r in found.failures
    )
    (line,) = told(list(standings.values()))
    assert line.startswith("expired: matmul float32 forward on faulty when")
    gone = run(Healthy(), path, seed=1)[1]
    assert [s.status for s in gone.values()] == ["no longer happens"]


def test_the_ratchet(write: Write, unexpected: Any) -> None:
    worst = max(r.metrics["rho_max"] for r in unexpected.failures)
    path = write(max_rho=4 * worst)
    assert not [r for r in again(unexpected.failures, path) if r.verdict.fails]
    found, standings = run(Worse(), path, seed=1, examples=8)
    assert found.failures
    assert all("grown beyond what is expected: at most" in r.explanation for r in found.failures)
    assert sum(s.grown for s in standings.values()) == len(found.failures)
    assert "beyond its max_rho" in " ".join(told(list(standings.values())))


def test_entries_that_name_nothing_get_a_suggestion(write: Write) -> None:
    path = write(
        ENTRY | {"operator": "matmull"},
        ENTRY | {"backend": "drectml"},
        ENTRY | {"operator": "aten.foo"},
    )
    _, standings = run(Healthy(), path, seed=1, examples=3)
    assert [s.status for s in standings.values()] == ["matches nothing"] * 2
    lines = list(told(list(standings.values())))
    assert "operator 'matmull' matches none that is known; did you mean matmul" in lines[0]
    assert "backend 'drectml' is none that is known; did you mean directml?" in lines[1]
    for entry in load_tolerances().expectations:
        assert misnamed(entry) == "", entry.place


def test_an_unknown_operator_is_told_without_the_operator_database(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> None:
        raise UsageError("PyTorch's operator database cannot be imported")

    monkeypatch.setattr("consistency.engine.misnamed_rules.opinfo.database", absent)
    _, standings = run(Healthy(), write(ENTRY | {"operator": "matmull"}), seed=1, examples=1)
    assert [s.status for s in standings.values()] == ["matches nothing"]


def standing(entry: Expectation, failed: int, passed: int) -> KnownStatus:
    collector = StatusCollector([entry])
    tensor = TensorRecipe((2, 2), "float32")
    for number in range(failed + passed):
        case = Case("exp", "float32", (tensor,), cotangent=number)
        known = Known(entry.id, entry.place, "divergent") if number < failed else None
        collector.add(
            Result(
                case,
                "cpu",
                "forward",
                Verdict("known" if known else "rounding"),
                "",
                {"rho_max": 2.0},
                known=known,
            )
        )
    (found,) = collector.standings()
    return found


@pytest.mark.parametrize(
    ("named", "covers"),
    [("exp", True), ("ex?", True), ("[de]xp", True), ("*", True), ("exp2", False), ("ex", False)],
)
def test_entries_are_found_by_name_and_by_pattern(named: str, covers: bool) -> None:
    entries = [Expectation(name, verdicts=("divergent",)) for name in ("sin", named, "exp?")]
    collector = StatusCollector(entries)
    case = Case("exp", "float32", (TensorRecipe((2, 2), "float32"),))
    collector.add(Result(case, "cpu", "forward", Verdict("rounding"), "", {"rho_max": 0.5}))
    assert [(s.about, s.passed) for s in collector.covered()] == ([(named, 1)] if covers else [])


def test_flakes_may_stay_away_for_some_nights() -> None:
    flaky = Expectation(
        "exp", verdicts=("divergent",), flaky=True, rate=0.2, reason="r", place="f.yaml:1"
    )
    assert flaky.enough == 31  # 0.8³¹ = 1e-3
    assert standing(flaky, 0, 30).status == "not exercised"
    assert standing(flaky, 0, 31).status == "no longer happens"
    nights = [[standing(flaky, 0, 11)]] * 3
    assert [s.status for s in together(nights)] == ["no longer happens"]
    assert [s.status for s in together([*nights, [standing(flaky, 1, 3)]])] == ["happens"]
    (line,) = told([standing(flaky, 4, 16)])
    assert line == "flaky: exp when nothing is said" or line.startswith(
        "flaky: exp (f.yaml:1): failed in 4 of 20 (0.2; 0.2 is stated)"
    )
    assert "more often" not in line
    (often,) = told([standing(flaky, 15, 5)])
    assert "more often than stated (p = " in often
    assert Expectation("exp", flaky=True).enough == 688
    assert Expectation("exp").enough == 227
    assert Expectation("exp", when=parse("K > 3")).enough == 10
    assert Expectation("exp", rate=1.0).enough == 3


def test_the_binomial_tail() -> None:
    assert more_often(1, 1, 0.25) == pytest.approx(0.25)
    assert more_often(2, 3, 0.5) == pytest.approx(0.5)
    assert more_often(0, 9, 0.5) == 1.0


def test_the_counts_stand_in_the_bundle_and_on_its_page(write: Write, tmp_path: Path) -> None:
    path, out = write(ENTRY, ENTRY | {"operator": "matmull"}), tmp_path / "b"
    run(Healthy(), path, seed=1, out=out)
    rows = [json.loads(line) for line in (out / FILE).read_text(encoding="utf-8").splitlines()]
    assert [(row["place"], row["status"]) for row in rows] == [
        ("known.yaml:2", "no longer happens"), ("known.yaml:11", "matches nothing"),
    ]  # fmt: skip
    assert [KnownStatus.from_json(row) for row in rows] == read(out).summary.standings == kept(out)
    shown = (out / "report.html").read_text(encoding="utf-8")
    assert "no longer happens: remove expectation matmul float32 forward on faulty" in shown
    assert "no longer happens" in command("report {} --markdown", out).output
    (out / FILE).write_text('{"entry": 3}\n', encoding="utf-8")
    with pytest.raises(BundleError, match=r"expectations.jsonl:1  damaged"):
        read(out)


def test_what_was_known_survives_the_bundle(write: Write, tmp_path: Path) -> None:
    found, _ = run(Faulty(), write(max_rho=1e9), seed=1, examples=10, out=tmp_path / "b")
    assert [r.known for r in bundle.read_results(tmp_path / "b")] == [
        r.known for r in found.results
    ]
    assert any(r.known for r in found.results)
    with pytest.raises(BundleError, match="was begun with other tolerances"):
        run(Faulty(), (), seed=1, examples=10, out=tmp_path / "b", resume=True)


def test_several_files_and_those_of_the_tolerances(write: Write, tmp_path: Path) -> None:
    one, two = write(), write(ENTRY | {"operator": "exp"}, name="two.yaml", when=None)
    rules = with_more(load_tolerances(), [one, two])
    assert [e.place for e in rules.expectations[:2]] == ["known.yaml:2", "two.yaml:2"]
    assert rules.expectations[2:] == load_tolerances().expectations
    assert rules.digest != load_tolerances().digest
    assert with_more(load_tolerances(), []) is load_tolerances()


def test_names_are_those_of_the_versions_that_an_entry_is_for(write: Write) -> None:
    """An entry for a newer torch may name an argument that this one does not have."""
    here = torch.__version__.split("+")[0]
    ((entry,), _) = load([write(when="newer == 3", torch=f">{here}")])
    assert entry.when == parse("newer == 3")
    with pytest.raises(ConfigurationError, match="has 'newer', which is no argument"):
        load([write(when="newer == 3", torch=f">={here}")])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"when": "layuot(arg0) == strided"}, ("known.yaml:2:3  expectations[0].when has "
        "'layuot', which is no function here")),
        ({"when": "Q > 3"}, ("expectations[0].when has 'Q', which is no argument or dimension of "
        "matmul; known: K, M, N")),
        ({"when": "othr == 3"}, ("has 'othr', which is no argument or dimension of matmul; did "
        "you mean other?")),
        ({"when": ""}, "expectations[0].when is ''; it must not be empty"),
        ({"rate": 1.5}, "expectations[0].rate is 1.5"),
        ({"torch": "new"}, "expectations[0].torch is 'new', not a range of versions"),
        ({"condition": "K > 3", "when": None}, ("expectations[0].condition is not a key here; did "
        "you mean when?")),
        ({"tickt": "x"}, "expectations[0].tickt is not a key here; did you mean ticket?"),
        ({"reason": None}, "expectations[0] has no reason; add it here"),
        ({"operator": []}, "expectations[0].operator is a list; it must not be empty"),
        ({"operator": 3}, "expectations[0].operator wants a name, or a list of names"),
        ({"operator": ["matmul", 3]}, "expectations[0].operator[1] wants text"),
        ({"operator": ["matmul", "exp"], "when": "Q > 3"}, ("has 'Q', which is no argument or "
        "dimension of matmul, exp")),
    ],
)  # fmt: skip
def test_mistakes_are_located(write: Write, change: dict[str, Any], words: str) -> None:
    entry = {"when": change["when"]} | ENTRY | change if change.get("when") else ENTRY | change
    with pytest.raises(ConfigurationError) as caught:
        load([write(entry)])
    assert words in str(caught.value)
    assert str(caught.value).startswith("known.yaml:")


def test_dimensions_and_arguments_of_any_operator_that_a_glob_matches(write: Write) -> None:
    (entries, _) = load([write(ENTRY | {"operator": "*mm", "when": "K > 3 and mat2"})])
    assert entries[0].when == parse("K > 3 and mat2")
    assert load([write(ENTRY | {"operator": "unheard-of", "when": "Q > 3"})])[0][0].when == parse(
        "Q > 3"
    )


def test_a_list_of_operators_is_an_entry_for_each(write: Write) -> None:
    """So the entries have the ids that they have when they are written one by one."""
    together_ = load([write(ENTRY | {"operator": ["matmul", "mm*"]})])[0]
    apart = load([write(ENTRY, ENTRY | {"operator": "mm*"})])[0]
    assert [entry.id for entry in together_] == [entry.id for entry in apart]
    assert {entry.place for entry in together_} == {"known.yaml:2"}


def test_ids_stay_when_an_entry_moves_or_is_renewed(write: Write) -> None:
    one = load([write()])[0][0]
    moved = load(
        [
            write(
                ENTRY | {"operator": "exp", "when": None},
                ENTRY | {"expires": datetime.date(2030, 1, 1)},
            )
        ]
    )[0][1]
    assert one.id == moved.id
    assert one.place != moved.place
    assert one.id != load([write(when="K > 5")])[0][0].id
    assert one.id != load([write(reference_torch=">=2.4")])[0][0].id


def test_the_schema_in_docs_is_that_of_the_model() -> None:
    view = json.loads((ROOT / "docs" / "expectations.schema.json").read_text(encoding="utf-8"))
    assert json_schema() == view, (
        "write it again: python -m consistency.judge.known > docs/expectations.schema.json"
    )


def test_the_command_line_takes_files(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.engine.test_expectations import Faulty\n"
    )
    monkeypatch.chdir(tmp_path)
    wanted = [
        "run", "matmul", "--dtype", "float32", "--direction", "forward", "-b", "mine.py:Faulty",
        "--no-bundle", "--no-shrink",
    ]  # fmt: skip
    assert CliRunner().invoke(main, wanted).exit_code == 1
    shown = CliRunner().invoke(main, [*wanted, "--expectations", str(write())])
    assert shown.exit_code == 0, shown.output
    assert "1 known" in shown.output or " known ·" in shown.output
    missing = CliRunner().invoke(main, [*wanted, "--expectations", "absent.yaml"])
    assert missing.exit_code == 2
    assert (
        "absent.yaml  cannot be read: No such file or directory; name an expectations file that "
        "exists"
    ) in missing.output


@pytest.fixture(autouse=True)
def _no_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def test_entries_of_the_package_can_be_left_out_of_the_list() -> None:
    mine, packaged = (
        KnownStatus(entry, "mine.yaml:3", f"exp on {entry}", failed=2, passed=1)
        for entry in ("mine", "packaged")
    )
    (line,) = counted([mine, packaged], without={"packaged"})
    assert line.startswith("expected: exp on mine: 2 results of 3")
