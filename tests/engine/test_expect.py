"""`consistency expect`: the narrowest condition is found by trying, and text is added to a file
that stays as it was."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from consistency import operators
from consistency.api.recordings import judge_recordings, record
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine.known import write
from consistency.engine.known.predicate_evidence import relatives
from consistency.engine.known.predicate_search import narrow
from consistency.errors import ConfigurationError, UsageError
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.judge.known import load
from consistency.judge.known.case_facts import Facts
from consistency.judge.known.entries import Expectation
from consistency.judge.known.predicate import parse
from tests.engine.test_expectations import Faulty, run
from tests.support.commands import command
from tests.support.paths import ROOT


def split(
    operator: str, condition: str, examples: int = 120, dtype: str = "float32"
) -> tuple[list[Case], list[Case]]:
    """Drawn cases of which a condition is true, and the others."""
    predicate = parse(condition)
    cases = search.batch(operators.get(operator), dtype, examples, 5)
    failing = [case for case in cases if predicate.holds(Facts(case))]
    return failing, [case for case in cases if not predicate.holds(Facts(case))]


@pytest.mark.parametrize(("operator", "planted"), [
    ("matmul", "layout(arg0) != contiguous"),
    pytest.param("matmul", "K >= 16", marks=pytest.mark.nightly),
    pytest.param("matmul", "layout(arg1) == transposed and K >= 8", marks=pytest.mark.nightly),
    ("exp", "has_nan(arg0)"),
    pytest.param("exp", "values(arg0) == wide and layout(arg0) != contiguous",
        marks=pytest.mark.nightly),
    pytest.param("nn.functional.interpolate", "mode == 'bilinear'", marks=pytest.mark.nightly),
    pytest.param("sum", "layout(arg0) == expanded", marks=pytest.mark.nightly),
])  # fmt: skip
def test_a_planted_condition_is_found(operator: str, planted: str) -> None:
    failing, passing = split(operator, planted)
    assert len(failing) >= 3, len(failing)
    found = narrow(failing[0], failing, passing)
    assert (found.failing, found.passing) == (len(failing), 0)
    assert found.when.count(" and ") <= planted.count(" and ")
    fresh = search.batch(operators.get(operator), "float32", 80, 77)
    asked, meant = parse(found.when), parse(planted)
    wrong = [case for case in fresh if asked.holds(Facts(case)) != meant.holds(Facts(case))]
    assert len(wrong) <= 0.08 * len(fresh), found.when


def test_a_threshold_lies_at_a_power_of_two_where_it_can() -> None:
    def product(k: int) -> Case:
        return Case(
            "matmul", "float32", (TensorRecipe((2, k), "float32"), TensorRecipe((k, 2), "float32"))
        )

    assert (
        narrow(product(300), [product(300), product(270)], [product(k) for k in range(1, 256)]).when
        == "K >= 256"
    )
    assert (
        narrow(product(300), [product(300), product(270)], [product(k) for k in range(1, 260)]).when
        == "K >= 270"
    )
    assert (
        narrow(product(3), [product(3), product(5)], [product(k) for k in range(9, 99)]).when
        == "K <= 8"
    )
    odd = [product(7), product(15), product(31)]
    assert (
        narrow(product(7), odd, [product(k) for k in (1, 2, 8, 12, 16, 40, 48)]).when
        == "K % 4 == 3"
    )


def test_where_nothing_tells_them_apart_it_says_so() -> None:
    cases = search.batch(operators.get("exp"), "float32", 60, 5)
    found = narrow(cases[0], cases[::2], cases[1::2])
    assert found.passing > 0
    assert 0.0 < found.rate < 1.0
    alone = narrow(cases[0], cases, [])
    assert (alone.when, alone.rate) == ("", 1.0)
    assert 0.95 < alone.least_rate < 0.96  # 60 of 60
    assert Expectation("exp", rate=alone.least_rate).enough == 3


def test_relatives_differ_in_one_tensor_and_can_be_built() -> None:
    for name in ("matmul", "nn.functional.conv2d", "cat"):
        for case in search.batch(operators.get(name), "float32", 12, 2):
            for other in relatives(case, 0):
                changed = [
                    a is not b and a != b for a, b in zip(case.tensors, other.tensors, strict=True)
                ]
                assert sum(changed) <= 1
                shapes = [[t.shape for t in prepare(one).build().tensors] for one in (case, other)]
                assert shapes[0] == shapes[1]


# Writing

SAID: dict[str, Any] = {
    "operator": "exp", "dtype": "float32", "direction": "forward",
    "when": "layout(arg0) == strided", "backend": "cpu",
    "verdicts": ["divergent"], "max_rho": 49.0, "reason": "because: \"it\" is #1",
    "ticket": "https://example.org/1#2",
    "since": datetime.date(2026, 1, 2), "expires": None,
}  # fmt: skip


@pytest.mark.parametrize(
    "before",
    [
        "",
        "expectations: []\n",
        "expectations:   # those\n  []\n",
        (
            "# mine\nexpectations:\n  # one\n  - operator: tan   # the tangent\n    verdicts: "
            "[crash]\n    reason: r\n  # the end\n"
        ),
        "expectations:\n- {operator: tan, verdicts: [crash], reason: r}\n- operator: cos\n  "
        "verdicts:\n  - crash\n"
        "  reason: >-\n    long\n    text",
        "extends: packaged\nexpectations:\n    - operator: tan\n      verdicts: [crash]\n      "
        "reason: 'r'\n\n# more\n"
        "backends:\n  cpu: {policy: {}}\n",
        "extends: packaged  # nothing yet\n",
        "expectations:\r\n  - operator: tan\r\n    verdicts: [crash]\r\n    reason: r\r\n",
    ],
)
def test_an_entry_is_added_and_nothing_else_changes(tmp_path: Path, before: str) -> None:
    path = tmp_path / "known.yaml"
    if before:
        path.write_bytes(before.encode())
    already = write.read(path) if before and "[]" not in before and "expectations" in before else []
    place = write.append(path, SAID, ["exp-1: covers\nall"])
    text = path.read_bytes().decode()
    found = write.read(path)
    assert [e.id for e in found[:-1]] == [e.id for e in already]
    assert (found[-1].operator, str(found[-1].when), found[-1].max_rho) == (
        "exp",
        SAID["when"],
        49.0,
    )
    assert (found[-1].reason, found[-1].ticket, found[-1].since) == (
        SAID["reason"],
        SAID["ticket"],
        SAID["since"],
    )
    number = int(place.rpartition(":")[2])
    assert text.splitlines()[number - 1].strip() == "- operator: exp"
    assert text.splitlines()[number - 2].strip() == "# exp-1: covers all"
    lines = iter([line.rstrip() for line in text.splitlines()])
    assert all(
        line in lines
        for line in (old.replace("[]", "").rstrip() for old in before.splitlines())
        if line
    )  # in this order
    assert ("\r\n" in text) == ("\r\n" in before)
    again = write.append(path, SAID | {"operator": "cos"})
    assert len(write.read(path)) == len(found) + 1
    assert again != place
    assert [p.name for p in tmp_path.iterdir()] == ["known.yaml"]


def test_files_that_nothing_can_be_added_to_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "known.yaml"
    for text, error, words in [
        (
            "expectations: [{operator: tan, verdicts: [crash], reason: r}]\n",
            UsageError,
            "known.yaml:1  expectations is written in",
        ),
        (
            "expectations:\n  - operator: tan\n",
            ConfigurationError,
            "known.yaml:2:5  expectations[0] has no verdicts",
        ),
        ("expectation: []\n", ConfigurationError, "did you mean expectations?"),
        ("a: [\n", ConfigurationError, "not valid YAML"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(error) as caught:
            write.append(path, SAID)
        assert words in str(caught.value)
        assert path.read_text(encoding="utf-8") == text
    with pytest.raises(UsageError, match="cannot write"):
        write.append(tmp_path / "no" / "such" / "folder.yaml", SAID)


# The command


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a backend in a file and a bundle of a run on it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "mine.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.engine.test_expectations import *\n"
    )
    run(Faulty(), examples=22, out=folder / "bundle")
    return folder


def invoke(home: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    monkeypatch.chdir(home)
    return command("expect", *arguments)


def failure(home: Path) -> str:
    return str(min((home / "bundle" / "failures").iterdir()))


def test_a_failure_becomes_an_entry_that_covers_its_like(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "known.yaml"
    told = invoke(
        home,
        monkeypatch,
        failure(home),
        "--ticket",
        "T-9",
        "-o",
        str(path),
        "-b",
        "mine.py:Faulty",
        "--seconds",
        "40s",
    )
    assert told.exit_code == 0, told.output
    ((entry,), _) = load([path])
    assert str(entry.when).startswith("layout(arg0) != contiguous and ")
    assert (entry.operator, entry.dtype, entry.direction, entry.backend) == (
        "matmul",
        "float32",
        "forward",
        "faulty",
    )
    assert (entry.ticket, entry.since, entry.verdicts) == (
        "T-9",
        datetime.date.today(),
        ("divergent",),
    )
    assert "fails here in 5 of 5 runs: always" in told.output
    assert f"wrote {path.as_posix()}:4" in told.output
    assert "max_rho is 4 × the largest error seen" in told.output
    found, _ = run(Faulty(), path, examples=60, seed=8)
    # How near the condition comes to the planted one depends on how much could be run in the time.
    assert sum(r.verdict.value == "known" for r in found.results) >= max(8, 2 * len(found.failures))
    again = invoke(
        home, monkeypatch, failure(home), "--ticket", "T-9", "-o", str(path), "-b", "mine.py:Faulty"
    )
    assert again.exit_code == 2
    assert f"is expected already, by {path.name}:4; nothing is written" in again.output
    assert len(load([path])[0]) == 1


def test_the_bundle_alone_will_do(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "known.yaml"
    told = invoke(home, monkeypatch, failure(home), "--ticket", "T", "-o", str(path), "-b",
    "mine.py:Faulty", "--seconds", "0s",
                  "--reason", "planted", "--expires", "2999-12-31")  # fmt: skip
    assert told.exit_code == 0, told.output
    ((entry,), _) = load([path])
    assert "layout(arg0) != contiguous" in str(entry.when)
    assert entry.rate is not None
    assert entry.rate > 0.5  # so that few passes are enough
    assert (entry.reason, str(entry.expires)) == ("planted", "2999-12-31")
    assert "none of" in told.output
    assert "that pass" in told.output


def test_a_backend_that_nobody_here_knows(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "known.yaml"
    identifier = Path(failure(home)).name
    told = invoke(home, monkeypatch, "bundle", "--id", identifier, "--ticket", "T", "-o", str(path))
    assert told.exit_code == 0, told.output
    assert "fails here" not in told.output
    assert load([path])[0][0].backend == "faulty"


def test_a_recording_holds_cases_enough(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(home)
    recorded, path = tmp_path / "recording", tmp_path / "known.yaml"
    record(
        ["matmul"],
        Faulty(),
        out=recorded,
        dtypes=["float32"],
        directions=("forward",),
        examples=30,
        seed=2,
    )
    failing = judge_recordings(recorded).failures[0]
    told = invoke(
        home,
        monkeypatch,
        str(recorded),
        "--id",
        failing.recorded_id,
        "--ticket",
        "T",
        "-o",
        str(path),
    )
    assert told.exit_code == 0, told.output
    ((entry,), _) = load([path])
    assert str(entry.when).startswith("layout(arg0) != contiguous")
    assert "none of " in told.output
    assert not judge_recordings(recorded, expectations=path).failures
    assert command("judge {} --expectations {}", recorded, path).exit_code == 0


@pytest.mark.parametrize(("arguments", "words"), [
    (["--expires", "tomorrow"], "--expires 'tomorrow' is no date; write it like 2027-01-31"),
    (["--expires", "2020-01-31"], "--expires 2020-01-31 has passed already; name a day to come"),
    (["-b", "mine.py:Healthy", "--seconds", "2s"], "does not fail on faulty"),
])  # fmt: skip
def test_what_cannot_be_expected(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], words: str
) -> None:
    case = str(Path(failure(home)) / "case.json")
    spec = [] if "-b" in arguments else ["-b", "mine.py:Faulty"]
    told = invoke(
        home,
        monkeypatch,
        case,
        "--ticket",
        "T",
        "-o",
        str(tmp_path / "known.yaml"),
        *spec,
        *arguments,
    )
    assert told.exit_code == 2
    assert words in told.output
    assert not (tmp_path / "known.yaml").exists()


def test_it_asks_where_and_for_a_ticket(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = str(Path(failure(home)) / "case.json")
    assert (
        "where does it fail? Add --backend SPEC"
        in invoke(home, monkeypatch, case, "--ticket", "T").output
    )
    assert "missing option '--ticket'" in invoke(home, monkeypatch, case).output


class Sometimes(Faulty):
    """Fails in two of three runs of the same case."""

    name = "sometimes"
    calls = 0

    def wrong(self, args: Any) -> bool:
        Sometimes.calls += 1
        return super().wrong(args) and Sometimes.calls % 3 != 0


def test_flakes_are_written_with_their_rate(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (home / "mine.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.engine.test_expect import *\n"
    )
    path, case = tmp_path / "known.yaml", str(Path(failure(home)) / "case.json")
    for _ in range(3):
        told = invoke(
            home,
            monkeypatch,
            case,
            "--ticket",
            "T",
            "-o",
            str(path),
            "-b",
            "mine.py:Sometimes",
            "--seconds",
            "3s",
        )
        if told.exit_code == 0:
            break
    assert told.exit_code == 0, told.output
    ((entry,), _) = load([path])
    assert entry.flaky
    assert 0.4 < entry.likely < 0.9
    assert "flaky, " in told.output
    assert {"nondeterministic", "divergent"} >= set(entry.verdicts)
