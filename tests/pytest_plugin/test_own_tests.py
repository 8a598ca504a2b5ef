"""The plugin in the tests that a project already has: marker, fixture, budget, diff, header,
summary."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from consistency import operators
from consistency.engine.changed_operators import touched
from consistency.pytest_plugin import session as pytest_session
from tests.pytest_plugin.test_plugin import SMALL, SUITE, USERS
from tests.support.paths import ROOT

OWN = """
import pytest
import torch
import consistency

torch.manual_seed(0)
X = torch.randn(6, 40)

def mine(x):
    return torch.exp(x) / 2

@pytest.mark.consistency(backends=["cpu", "users.py:Off", "users.py:Absent"])
def test_marked():
    consistency.assert_consistent(mine, X)

@pytest.mark.consistency(backends=["users.py:Off"], rule=consistency.Rule(1e6, 0.0))
def test_of_a_wide_rule(assert_consistent):
    (result,) = assert_consistent(mine, X)
    assert result.backend == "off"

@pytest.mark.consistency(directions=("forward", "backward"))
class TestGroup:
    def test_directions(self, assert_consistent):
        assert [r.direction for r in assert_consistent(mine, X)] == ["forward", "backward"]

    @pytest.mark.consistency(directions=("backward",), backends=["cpu"])
    def test_the_closest_marker_wins(self, assert_consistent, consistency_backend):
        assert consistency_backend == "cpu"
        assert [r.direction for r in assert_consistent(mine, X)] == ["backward"]

    def test_arguments_win(self):
        assert len(consistency.assert_consistent(mine, X, directions=("forward",))) == 1

def test_unmarked(assert_consistent, consistency_backend):
    assert consistency_backend is None
    assert len(assert_consistent(mine, X)) == 1
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with backends and tests of its own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    (pytester.path / "users.py").write_text(USERS, encoding="utf-8")
    (pytester.path / "test_own.py").write_text(OWN, encoding="utf-8")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """In this process, which has loaded torch; test_plugin.py has the same as processes."""
    return project.runpytest_inprocess("-p", "no:cacheprovider", "-rA", *arguments)


def test_a_marked_test_is_one_item_per_backend(project: pytest.Pytester) -> None:
    result = run(project, "--strict-markers", "--consistency-artifacts", "kept")
    result.assert_outcomes(passed=6, failed=1, skipped=1)
    result.stdout.re_match_lines(
        [
            r"PASSED .*test_marked\[cpu\]",
            r"SKIPPED .*absent is not available: the cable is not plugged in",
            r"FAILED .*test_marked\[users.py:Off\] - divergent: ",
        ],
    )
    text = result.stdout.str()
    assert "consistency.assert_consistent(mine, X)" in text
    assert "def assert_consistent(" not in text  # the traceback ends in the user's test


def test_backends_of_the_command_line_are_those_of_marked_tests(project: pytest.Pytester) -> None:
    result = run(project, "-k", "directions", "--backends", "cpu,users.py:Off")
    result.assert_outcomes(passed=1, failed=1, deselected=8)


def test_the_fixture_keeps_what_fails(project: pytest.Pytester) -> None:
    (project.path / "test_kept.py").write_text(
        OWN.split("@pytest.mark")[0]
        + "@pytest.mark.consistency(backends=['users.py:Off'])\n"
        + "def test_kept(assert_consistent):\n    assert_consistent(mine, X)\n",
        encoding="utf-8",
    )
    options = ("test_kept.py", "-p", "no:cacheprovider", "--consistency-artifacts", "kept")
    for name in ("test-kept-users-py-Off", "test-kept-users-py-Off-2"):  # the first is not lost
        result = project.runpytest_inprocess(*options)
        result.assert_outcomes(failed=1)
        assert (project.path / "kept" / name / "repro.py").is_file()
        result.stdout.fnmatch_lines([f"*artifact: *{name} (repro.py, issue.md)"])
        assert "keep:" not in result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "text"),
    [
        ("backend=['cpu']", "it has no 'backend'; did you mean backends"),
        ("'cpu'", "its arguments have names"),
        ("backends=['cpuu']", "did you mean cpu"),
    ],
)
def test_a_mistake_in_a_marker_is_one_line(
    project: pytest.Pytester, marker: str, text: str
) -> None:
    (project.path / "test_own.py").write_text(
        f"import pytest\n@pytest.mark.consistency({marker})\ndef test_it(): pass\n",
        encoding="utf-8",
    )
    result = run(project)
    assert result.ret != 0
    assert text in result.stdout.str() + result.stderr.str()
    assert "Traceback" not in result.stdout.str()
    assert ".py:" not in "".join(line for line in result.outlines if "site-packages" in line)


def test_the_header_the_reason_and_the_step_summary(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = project.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    result = run(
        project, *SUITE, *SMALL, "--directions", "forward", "--backends", "cpu,users.py:Off",
        "--consistency-fail-fast",
    )  # fmt: skip
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [
            r"consistency \d.* · torch .* · backends cpu, off · profile quick · seed 0",
            r"FAILED .*exp-float32-forward-off\] - divergent:",
        ],
        consecutive=False,
    )
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("### ❌ consistency: 1 failed, 1 passed, 0 skipped")
    assert "| exp-float32-forward-off | divergent: " in text
    assert "consistency repro" in text
    assert "\x1b" not in text


def test_a_backend_that_a_marked_test_misses_is_counted(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = project.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    arguments = ("test_own.py", "-p", "no:cacheprovider", "-k", "test_marked")
    project.runpytest_inprocess(*arguments).assert_outcomes(
        passed=1, failed=1, skipped=1, deselected=5
    )
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("### ❌ consistency: 1 failed, 1 passed, 1 skipped")
    assert "| test\\_marked\\[users.py:Off\\] | divergent" in text


def test_after_the_budget_no_item_begins(project: pytest.Pytester) -> None:
    result = run(
        project, *SUITE, *SMALL, "--backends", "cpu", "--consistency-budget", "0.000001s",
        "--consistency-allow-missing",
    )  # fmt: skip
    result.assert_outcomes(skipped=2)
    result.stdout.re_match_lines(
        [
            r"consistency: the budget of 0.000001s was over before 2 items began",
            r"SKIPPED .*the budget of 0.000001s is over",
        ],
        consecutive=False,
    )
    wrong = run(project, *SUITE, "--consistency-budget", "soon")
    wrong.stderr.fnmatch_lines(["ERROR: consistency: *'soon' is not a time; write 90s, 5m or 2h"])


def test_only_operators_that_the_diff_names(project: pytest.Pytester) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments],
            cwd=project.path, check=True, capture_output=True,
        )  # fmt: skip

    kernels = project.path / "kernels.cu"
    kernels.write_text("void expm1_kernel() {}\n", encoding="utf-8")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    kernels.write_text("void expm1_kernel() { fast(); }\n", encoding="utf-8")
    options = ("--operators", "exp,expm1", *SMALL[2:], "--backends", "cpu", "--directions",
               "forward")  # fmt: skip
    result = run(project, *SUITE, *options, "--changed", "main")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["changed since main: expm1"])
    wrong = run(project, *SUITE, *options, "--changed", "nowhere")
    assert wrong.ret != 0
    assert "--changed: git merge-base" in wrong.stderr.str() + wrong.stdout.str()


DIFF = """
diff --git a/csrc/softmax.cu b/csrc/softmax.cu
--- a/csrc/softmax.cu
+++ b/csrc/softmax.cu
@@ -10,0 +11,2 @@ void launch_softmax_forward(Tensor x)
+  float m = max(a, b);
+  gelu_tanh_kernel<<<1, 2>>>(x);
diff --git a/README.md b/README.md
+++ b/README.md
@@ -1,0 +2 @@
+now "layer_norm" is faster
diff --git a/ops.py b/ops.py
+++ b/ops.py
@@ -3 +3 @@ def dispatch
-    if name == "addmm":
+    if name == "aten::logsumexp": LaunchLayerNorm(x)
"""


def test_names_in_a_diff() -> None:
    found = {operator.name for operator in touched(DIFF, operators.registry().values())}
    assert {"softmax", "nn.functional.gelu", "addmm", "logsumexp", "nn.functional.layer_norm"} <= (
        found
    )
    assert not {"max", "exp", "log_softmax", "matmul"} & found
    assert touched("", operators.registry().values()) == []


def test_the_examples_of_the_page(project: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(code) == 3
    (project.path / "test_own.py").write_text("\n".join(code), encoding="utf-8")
    run(project).assert_outcomes(passed=4)


def test_a_summary_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    pytest_session.write_step_summary(str(tmp_path / "no" / "folder"), ["x"])
