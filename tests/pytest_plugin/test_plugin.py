"""The pytest plugin: items, outcomes, messages, properties, xdist; and other people's projects,
which it must leave alone."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from typing import Any

import pytest
import torch._inductor.test_operators  # noqa: F401
from click.testing import CliRunner

from consistency import operators
from consistency.backends.numpy import backend  # noqa: F401
from consistency.cli import main
from consistency.core.model import Case, Cause, Comparison, Evidence, Measured, Result
from consistency.core.verdict import Verdict
from consistency.engine import engine
from consistency.generate import exhaustive
from consistency.generate.shipped import cases as shipped
from consistency.pytest_plugin import items as pytest_items
from consistency.report import failure, terminal  # noqa: F401

# What runs in this process imports these and the module of torch's above; pytester forgets what is
# imported while it runs, and neither torch nor a module that registers a library is imported twice.
from consistency.storage import lookup
from tests.support.snapshots import Snapshot

SUITE = ("--pyargs", "consistency.suite", "-p", "no:cacheprovider")
SMALL = (
    "--operators",
    "exp",
    "--dtypes",
    "float32",
    "--consistency-examples",
    "3",
    "--consistency-no-shipped",
)
USERS = """
import consistency

class Off(consistency.Backend):
    name = "off"
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * 1.001

class Absent(consistency.Backend):
    name = "absent"
    def why_unavailable(self):
        return "the cable is not plugged in"

class Spy(consistency.Backend):
    def run(self, operator, materials, direction="forward", *args, **kwargs):
        with open(f"{self.name}.txt", "a") as stream:
            print(direction, materials.case.id, materials.sha256, file=stream)
        return super().run(operator, materials, direction, *args, **kwargs)

class One(Spy):
    name = "one"

class Two(Spy):
    name = "two"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project with some backends of its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        monkeypatch.delenv(name, raising=False)
    (pytester.path / "users.py").write_text(USERS, encoding="utf-8")
    return pytester


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """Outcome by item id, from the lines of -v and -rA."""
    found = re.findall(
        r"(?:^|\s)(PASSED|SKIPPED|FAILED) (?:\[.*?\] )?\S*?test_operator\[(\S+)\]",
        result.stdout.str(),
    )
    found += [
        (b, a)
        for a, b in re.findall(
            r"test_operator\[(\S+)\] (PASSED|SKIPPED|FAILED)", result.stdout.str()
        )
    ]
    return {item: outcome for outcome, item in found}


EXPECTED = {
    "exp-float32-forward-cpu": "PASSED", "exp-float32-forward-numpy": "PASSED",
    "exp-float32-backward-cpu": "PASSED", "exp-float32-backward-numpy": "SKIPPED",
}  # fmt: skip


# --- the suite


def test_an_item_per_operator_dtype_direction_and_backend(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess(
        *SUITE,
        *SMALL,
        "-W",
        "error",
        "--backends",
        "cpu,numpy",
        "-v",
        "-rs",
        "--junitxml",
        "junit.xml",
    )
    assert result.ret == 0
    assert outcomes(result) == EXPECTED
    result.stdout.fnmatch_lines(["SKIPPED*unsupported: numpy computes no gradients"])
    items = {
        case.get("name", ""): case for case in ET.parse(project.path / "junit.xml").iter("testcase")
    }
    assert len(items) == 4
    properties = {
        p.get("name"): p.get("value", "")
        for p in items["test_operator[exp-float32-forward-cpu]"].iter("property")
    }
    assert properties["operator"] == "exp"
    assert (properties["dtype"], properties["direction"], properties["backend"]) == (
        "float32",
        "forward",
        "cpu",
    )
    assert properties["cases"] == "6"  # two of them sweep the exponents
    assert sum(int(part.partition(":")[2]) for part in properties["verdicts"].split()) == 6
    assert 0.0 <= float(properties["rho_max"]) <= 1.0
    skipped = {
        p.get("name"): p.get("value", "")
        for p in items["test_operator[exp-float32-backward-numpy]"].iter("property")
    }
    assert skipped["verdicts"] == "unsupported:1"
    assert "rho_max" not in skipped


KNOWN = """
expectations:
  - {operator: exp, backend: "off", direction: forward, verdicts: [divergent],
     reason: planted, ticket: T-1, max_rho: 1.0e+9}
  - {operator: exp, backend: one, when: numel(arg0) > 0, verdicts: [divergent], rate: 1,
     reason: planted, ticket: T-2}
  - {operator: expp, verdicts: [divergent], reason: misspelled}
"""


def test_items_on_several_workers(project: pytest.Pytester) -> None:
    """On whichever worker an item runs, and whatever backend it is about: the same inputs, the same
    outcomes; at the end it is told what became of expectations.
    """
    pytest.importorskip("xdist")
    (project.path / "known.yaml").write_text(KNOWN, encoding="utf-8")
    backends = "cpu,numpy,users.py:One,users.py:Two,users.py:Off"
    result = project.runpytest_subprocess(
        *SUITE, *SMALL, "--backends", backends, "--expectations", "known.yaml", "-n", "2", "-v"
    )
    found = outcomes(result)
    assert found.pop("exp-float32-backward-off") == "FAILED"
    assert found.pop("exp-float32-forward-off") == "PASSED"
    assert found == EXPECTED | {
        f"exp-float32-{d}-{b}": "PASSED" for d in ("forward", "backward") for b in ("one", "two")
    }
    one, two = (
        (project.path / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        for name in ("one", "two")
    )
    assert sorted(one) == sorted(two)
    assert len(set(one)) == len(one) == 12
    # The same as everywhere else.
    here = engine.configure(["exp"], ["cpu"], ["float32"], examples=3)
    drawn = [*engine.draw(here.operators[0], "float32", 3, 0)[0]]
    drawn += exhaustive.cases(here.operators[0], "float32")
    assert {line.split()[1] for line in one} == {case.id for case in drawn}
    result.stdout.fnmatch_lines([
        "*- expectations -*",
        "expected: exp forward on off: ? results of 6*: planted (known.yaml:3; T-1)",
        ("no longer happens: remove expectation exp on one when numel(arg0) > 0 (known.yaml:5; "
        "T-2): all of 12 results pass"),
        "expectation known.yaml:7: operator 'expp' matches none that is known; did you mean exp*",
    ])  # fmt: skip
    assert "tolerances.yaml" not in result.stdout.str()


def test_failing_and_absent_backends(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess(
        *SUITE,
        *SMALL,
        "--directions",
        "forward",
        "--backends",
        "users.py:Off,users.py:Absent",
        "-rs",
    )
    assert result.ret == 1
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*unavailable: the cable is not plugged in"])
    lines = result.stdout.str().splitlines()
    head = next(
        number
        for number, line in enumerate(lines)
        if "test_operator[exp-float32-forward-off]" in line
    )
    assert re.fullmatch(
        r"exp · float32 · forward · off   divergent: [\d,]+ × budget.*", lines[head + 1]
    )
    worst = next(line for line in lines[head:] if line.startswith("  worst "))
    assert re.match(r"  worst .* of out/0: got .*, float64 says ", worst)
    again = next(line for line in lines if line.startswith("  again:   consistency repro '{"))
    assert "Traceback" not in result.stdout.str()
    assert "  6 of 6 cases fail" in lines
    command = shlex.split(again.removeprefix("  again:   consistency "))
    assert command[-4:] == ["--backend", "users.py:Off", "--direction", "forward"]
    done = CliRunner().invoke(main.main, command)
    assert done.exit_code == 1, done.output
    (kept,) = (line for line in lines if line.startswith("  artifact: "))
    folder = project.path / kept.removeprefix("  artifact: ").removesuffix(" (repro.py, issue.md)")
    assert folder.parent == project.path / "reports" / "pytest"
    names = {path.name for path in folder.iterdir()}
    assert {
        "case.json",
        "environment.json",
        "issue.md",
        "message.txt",
        "repro.py",
        "tensors.safetensors",
    } <= names
    assert "a backend of your own ('users.py:Off')" in (folder / "repro.py").read_text(
        encoding="utf-8"
    )
    assert lookup.find(str(folder)).case.operator == "exp"


def test_where_artifacts_go_can_be_chosen(project: pytest.Pytester) -> None:
    arguments = (*SUITE, *SMALL, "--directions", "forward", "--backends", "users.py:Off")
    chosen = project.runpytest_inprocess(*arguments, "--artifacts", "elsewhere")
    assert "  artifact: elsewhere/exp-" in chosen.stdout.str().replace("\\", "/")
    assert len(list((project.path / "elsewhere").iterdir())) == 1
    nowhere = project.runpytest_inprocess(*arguments, "--artifacts", "")
    assert nowhere.ret == 1
    assert "artifact: " not in nowhere.stdout.str()
    assert not (project.path / "reports").exists()


def test_items_can_be_chosen_by_their_names(project: pytest.Pytester) -> None:
    arguments = (
        "--operators", "exp,nn.functional.gelu", "--dtypes", "float32,float64", "--backends",
        "cpu,numpy",
    )  # fmt: skip
    result = project.runpytest_inprocess(
        *SUITE, *arguments, "--collect-only", "-q", "-k", "gelu and float64 and not numpy"
    )
    found = re.findall(r"\[(.*)\]", result.stdout.str())
    assert found == [
        "nn.functional.gelu-float64-forward-cpu",
        "nn.functional.gelu-float64-backward-cpu",
    ]


def test_operators_without_gradients_have_no_backward_items(project: pytest.Pytester) -> None:
    arguments = (
        "--operators", "exp,eq", "--dtypes", "float32,int32", "--consistency-backends", "cpu",
    )  # fmt: skip
    result = project.runpytest_inprocess(*SUITE, *arguments, "--collect-only", "-q")
    found = re.findall(r"\[(.*)-cpu\]", result.stdout.str())
    assert found == [
        "exp-float32-forward",
        "exp-float32-backward",
        "exp-int32-forward",
        "eq-float32-forward",
        "eq-int32-forward",
    ]


def test_items_begin_with_the_shipped_cases(project: pytest.Pytester) -> None:
    chosen = ("--operators", "exp", "--dtypes", "float32", "--directions", "forward")
    more = ("--consistency-examples", "2", "--backends", "cpu", "--junitxml", "junit.xml")
    assert project.runpytest_inprocess(*SUITE, *chosen, *more).ret == 0
    (item,) = ET.parse(project.path / "junit.xml").iter("testcase")
    properties = {p.get("name"): p.get("value", "") for p in item.iter("property")}
    begin = shipped.cases(operators.get("exp"), "float32")
    assert properties["cases"] == str(len(begin) + 5)


@pytest.mark.nightly
def test_cases_from_the_operator_database(project: pytest.Pytester) -> None:
    """Every variant of the database's entries is an item of its own, judged as all others are."""
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
    arguments = (
        "--source", "opinfo", "--dtypes", "float32", "--directions", "forward",
        "--consistency-examples", "2",
    )  # fmt: skip
    result = project.runpytest_subprocess(
        *SUITE, *arguments, "--operators", "div,norm", "--backends", "cpu,users.py:Off", "-v", "-rs"
    )
    found = outcomes(result)
    assert {item: found[item] for item in found if item.endswith("-cpu")} == {
        f"{name}-float32-forward-cpu": "PASSED"
        for name in (
            "div/no_rounding_mode",
            "div/floor_rounding",
            "div/trunc_rounding",
            "norm",
            "norm/nuc",
            "norm/fro",
            "norm/inf",
        )
    }
    assert found["div/no_rounding_mode-float32-forward-off"] == "FAILED"


# --- options


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--operators", "mtmul"], "there is no operator 'mtmul'; did you mean matmul or mul?"),
        (["--backends", "cpuu"], "there is no backend 'cpuu'; did you mean cpu?"),
        (
            ["--backends", ","],
            "no backend is chosen; leave backends out for every one that is available",
        ),
        (["--dtypes", "float23"], "unknown dtype 'float23'; did you mean float32 or float64?"),
        (["--source", "opinf"], "unknown source 'opinf'; did you mean opinfo?"),
        (["--directions", "up"], "unknown direction 'up'; known: forward, backward"),
        (
            ["--operators", "softmax", "--dtypes", "int8"],
            "nothing to test: none of the chosen operators takes int8; softmax takes *",
        ),
        (
            ["--consistency-examples", "0"],
            "examples = 0; at least 1 case per operator and dtype is needed",
        ),
        (
            ["--tolerances", "none.yaml"],
            (
                "none.yaml  cannot be read: No such file or directory; name a tolerances file that "
                "exists"
            ),
        ),
        (
            ["--expectations", "absent.yaml"],
            (
                "absent.yaml  cannot be read: No such file or directory; name an expectations file "
                "that exists"
            ),
        ),
        (
            ["--consistency-backends", "cpu+onedn=off"],
            "*the CPU has no switch 'onedn'; did you mean onednn?",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(project: pytest.Pytester, arguments: list[str], text: str) -> None:
    for where in (SUITE, ()):  # also where no test of ours is collected
        result = project.runpytest_inprocess(*where, *arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: consistency: {text}"])
        assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_the_options_explain_themselves(project: pytest.Pytester) -> None:
    text = project.runpytest_inprocess("--help").stdout.str()
    section = text.partition(
        "consistency: the same numbers on every backend? (pytest --pyargs consistency.suite)"
    )[2].partition("\n\n")[0]
    for name in (
        "backends",
        "operators",
        "dtypes",
        "directions",
        "source",
        "tolerances",
        "artifacts",
        "consistency-profile",
        "consistency-seed",
    ):
        assert f"--{name}" in section


# --- other people's projects


def test_other_projects_pay_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_torch_is_not_imported():
            assert "consistency.pytest_plugin" in sys.modules
            heavy = ("torch", "numpy", "hypothesis.core", "click", "pydantic")
            for name in (*heavy, "consistency.engine.engine"):
                assert name not in sys.modules, name
        """
    )
    result = project.runpytest_subprocess("-p", "no:hypothesispytest", "-W", "error")
    result.assert_outcomes(passed=1)


def test_other_projects_keep_their_options(project: pytest.Pytester) -> None:
    """A conftest.py with an option of the same name works as before; ours is then
    --consistency-NAME."""
    project.makeconftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--backends", default="theirs")
            parser.addoption("--tolerances", action="store_true", dest="theirs_too")
        """
    )
    project.makepyfile(
        """
        import sys

        def test_theirs(request):
            assert request.config.getoption("backends") == "mine, not yours"
            assert request.config.getoption("theirs_too")
            assert "torch" not in sys.modules
        """
    )
    result = project.runpytest_subprocess(
        "-p", "no:hypothesispytest", "--backends", "mine, not yours", "--tolerances"
    )
    result.assert_outcomes(passed=1)
    arguments = (
        "--consistency-backends", "cpu", "--operators", "neg", "--collect-only", "-q", "--dtypes",
        "float32",
    )  # fmt: skip
    result = project.runpytest_inprocess(*SUITE, *arguments)
    assert re.findall(r"\[(.*)\]", result.stdout.str()) == [
        "neg-float32-forward-cpu",
        "neg-float32-backward-cpu",
    ]


# --- one item


def item(**changes: Any) -> pytest_items.Item:
    chosen = engine.configure(["exp"], ["cpu"], ["float32"], examples=2)
    usual = {
        "config": chosen,
        "declared": operators.get("exp"),
        "dtype": "float32",
        "direction": "forward",
        "backend": "cpu",
    }
    return pytest_items.Item(**usual | changes)


def exp_result(
    verdict: str, explanation: str, rho: float | None = None, cause: str = "", wrong: int = 0
) -> Result:
    """A result of exp in float32 on the CPU, with ``wrong`` wrong elements that ``cause``
    explains."""
    found = Cause(cause, f"{cause} words", 1.0) if cause else None
    outputs = (Measured("out/0", "float32", (wrong,), wrong, differing=wrong),)
    return Result(
        Case("exp", "float32"), "cpu", "forward", Verdict(verdict), explanation,
        {} if rho is None else {"rho_max": rho},
        comparison=Comparison("ok", outputs) if wrong else None,
        evidence=Evidence(verdict, cause=found) if cause else None,
    )  # fmt: skip


def failing_item(monkeypatch: pytest.MonkeyPatch, *results: Result) -> tuple[str, dict[str, Any]]:
    """The message of an item with these results, and what it records; nothing is minimized."""
    monkeypatch.setattr(engine, "smallest_failure", lambda *args: None)
    monkeypatch.setattr(pytest_items.Item, "_results", lambda self: list(results))
    recorded: dict[str, Any] = {}
    with pytest.raises(pytest.fail.Exception) as failed:
        item().check(recorded.__setitem__)
    return str(failed.value), recorded


def test_what_was_not_tested_never_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where every case was judged, and none could tell anything."""
    nothing = [exp_result("inconclusive", "cannot tell: all blank")] * 2
    monkeypatch.setattr(pytest_items.Item, "_results", lambda self: nothing)
    recorded: dict[str, object] = {}
    with pytest.raises(
        pytest.skip.Exception, match=r"inconclusive: cannot tell: all blank \(2 cases\)"
    ):
        item().check(recorded.__setitem__)
    assert recorded["verdicts"] == "inconclusive:2"
    assert "rho_max" not in recorded


def test_an_operator_that_cannot_be_drawn_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        engine, "draw", lambda *args: ([], "no case could be drawn (KeyError: x); please report it")
    )
    pytest_items._cases.cache_clear()
    with pytest.raises(pytest.skip.Exception, match="inconclusive: no case could be drawn"):
        item().check(lambda name, value: None)
    pytest_items._cases.cache_clear()


def test_where_every_item_fails_the_searching_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [exp_result("divergent", "9 × budget", 9.0)]
    monkeypatch.setattr(pytest_items.Item, "_results", lambda self: found)
    monkeypatch.setattr(pytest_items, "_spent", [engine.MINIMIZATION_SECONDS])
    monkeypatch.setattr(engine, "smallest_failure", lambda *args: pytest.exit("searched"))
    with pytest.raises(pytest.fail.Exception, match="divergent: 9 × budget"):
        item().check(lambda name, value: None)


def test_an_exception_is_worse_than_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = failing_item(
        monkeypatch,
        exp_result("divergent", "9 × budget", 9.0),
        exp_result("error", "raised where the reference did not"),
    )
    assert text.startswith("exp · float32 · forward · cpu   error: raised")
    assert text.splitlines().count("  also:    divergent: 9 × budget") == 1


def test_the_cases_of_an_item_elect_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst case has one wrong element, which several causes explain by chance."""
    many = [exp_result("divergent", "9 × budget: scaled", 9.0, "scaled", 64)] * 4
    text, recorded = failing_item(
        monkeypatch,
        exp_result("divergent", "99 × budget: transposed words explains 100%", 99.0, "transposed",
                   1),
        *many,
    )  # fmt: skip
    assert "cause:   scaled words explains 100%: 4 of 5 cases" in text
    assert "transposed" not in text
    assert recorded["cause"] == "scaled"


def test_one_wrong_element_gives_an_item_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    text, recorded = failing_item(
        monkeypatch,
        exp_result("divergent", "9 × budget: scaled words explains 100%", 9.0, "scaled", 1),
    )
    assert "cause" not in text
    assert "scaled" not in text
    assert "cause" not in recorded


# --- what CI reads

OWN_TEST = """
import torch
import consistency

def test_mine():
    x = torch.rand(100)
    consistency.assert_consistent(lambda x: x * 1.01, x, reference=lambda x: x)

def test_another():
    assert 1 == 2
"""


@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.nightly)])
def test_annotations_on_github(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    """A line per failure of ours, worst first; only a test of the user's own has a place. Others'
    failures are not ours."""
    if workers:
        pytest.importorskip("xdist")
    project.makepyfile(test_own=OWN_TEST)
    arguments = (
        "test_own.py", *SUITE, *SMALL, "--directions", "forward", "--backends", "users.py:Off",
        *workers,
    )  # fmt: skip
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    run = project.runpytest_subprocess if workers else project.runpytest_inprocess
    found = [line for line in run(*arguments).outlines if line.startswith("::")]
    assert len(found) == 2
    (suite,) = (line for line in found if "exp · float32" in line)
    assert re.match(
        (
            r"::error title=exp · float32 · forward · off   divergent%3A [\d%2C]+ × budget.*::exp "
            r"· "
            r"float32 · forward · off   "
        ),
        suite,
    )
    assert "%0Aagain:   consistency repro " in suite
    (own,) = (line for line in found if "test_own" in line)
    assert own.startswith("::error file=test_own.py,line=6,title=")
    if not workers:
        monkeypatch.delenv("GITHUB_ACTIONS")
        assert not [
            line
            for line in project.runpytest_inprocess(*arguments).outlines
            if line.startswith("::")
        ]


def test_annotations_are_few_and_one_line_each(snapshot: Snapshot) -> None:
    """GitHub shows ten of a step; a sentence from a backend cannot begin a command of its own."""
    from types import SimpleNamespace

    from consistency.report.annotations import workflow_commands

    def failed(message: str) -> SimpleNamespace:
        return SimpleNamespace(
            consistency={"message": message, "suite": True}, location=("x.py", 3, "test")
        )

    reports = [
        failed(f"op · a, b   divergent: {i},000 × budget\n::error::50% off\r\n")
        for i in range(1, 13)
    ]
    lines = list(workflow_commands([*reports, failed("op · raised: boom")]))
    assert len(lines) == 11
    snapshot(lines[0], "1")
    assert lines[1].startswith("::error title=op · a%2C b   divergent%3A 12%2C000 × budget::")
    assert lines[1].endswith("%0A::error::50%25 off")
    snapshot(lines[-1], "2")
    assert not [line for line in lines if "\n" in line or "\r" in line]


def test_junit_tells_how_to_go_on(project: pytest.Pytester) -> None:
    arguments = ("--directions", "forward", "--backends", "users.py:Off", "--junitxml", "junit.xml")
    assert project.runpytest_inprocess(*SUITE, *SMALL, *arguments).ret == 1
    (case,) = ET.parse(project.path / "junit.xml").iter("testcase")
    properties = {p.get("name"): p.get("value", "") for p in case.iter("property")}
    assert properties["verdict"] == "divergent"
    assert properties["again"].startswith("consistency repro '{")
    assert float(properties["rho_max"]) > 1.0
    (failure_node,) = case.iter("failure")
    assert "exp · float32 · forward · off" in failure_node.get("message", "")
