"""Worker processes: what a backend does to its process costs that case, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from click.testing import CliRunner

import consistency
from consistency import backends, operators
from consistency.backends.subprocess import backend as isolated
from consistency.backends.subprocess import process
from consistency.backends.subprocess.supervised_worker import DEATHS_IN_A_ROW
from consistency.cli.main import main
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import evaluation
from consistency.engine.engine import Run
from consistency.engine.events import Event, MemoryGrowth
from consistency.errors import UsageError
from consistency.judge import tolerances
from consistency.storage import bundle
from tests.support import bad_backends
from tests.support.paths import SUPPORT
from tests.support.running import unshrunk

FILE = SUPPORT / "bad_backends.py"
OPERATOR = "neg"

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def no_orphans() -> Iterator[None]:
    """Every process that a test started is gone when it ends, but those that fork them."""
    me = psutil.Process()
    before = {child.pid for child in me.children(recursive=True)}
    yield
    before |= {kept.server.process.pid for kept in process._FORKED._kept}
    left = [child for child in me.children(recursive=True) if child.pid not in before]
    _, alive = psutil.wait_procs(left, timeout=5.0)
    assert alive == []


def run(name: str, examples: int = 26, **options: object) -> Run:
    given: dict[str, object] = {
        "dtypes": ["float32"],
        "directions": ["forward"],
        "case_timeout": 20.0,
    } | options
    return unshrunk([OPERATOR], [f"{FILE}:{name}+isolated"], examples=examples, **given)  # type: ignore[arg-type]


def bad(result: consistency.Result) -> bool:
    elements = 1
    for size in result.shapes[0].split("]")[0].strip("[").split(","):
        elements *= int(size) if size.strip() else 1
    return bad_backends.chosen(elements)


def check(found: Run, verdict: str, text: str) -> None:
    """Each chosen case has the verdict, every other case is judged, and there are both kinds."""
    wrong = [r for r in found.results if bad(r)]
    assert wrong, "no case was chosen"
    assert len(wrong) < len(found.results)
    for result in found.results:
        if bad(result):
            assert (result.verdict.value, text in result.explanation) == (verdict, True), (
                result.explanation
            )
        else:
            assert result.verdict.value in ("exact", "inconclusive"), result.explanation
    assert len({r.key for r in found.results}) == len(found.results) >= 8


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "verdict", "text"), [
    ("Raises", "error", "something went wrong"),
    ("Garbage", "structure", "has shape [3, 1, 7] instead of"),
    pytest.param("Aborts", "crash", "SIGABRT",
        marks=pytest.mark.skipif(os.name != "posix", reason="signals")),
    pytest.param("Segfaults", "crash", "SIGSEGV",
        marks=pytest.mark.skipif(os.name != "posix", reason="signals")),
    pytest.param("Killed", "crash", "SIGKILL",
        marks=pytest.mark.skipif(os.name != "posix", reason="signals")),
    ("Exits", "crash", "exit status 7): device removed"),
    ("Sticky", "error", "an illegal memory access"),
])  # fmt: skip
def test_each_bad_case_has_its_verdict_and_every_other_case_its_own(
    name: str, verdict: str, text: str
) -> None:
    check(run(name), verdict, text)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name",
    ["Sleeps", pytest.param("Spins", marks=pytest.mark.skipif(os.name != "posix", reason="libc"))],
)
def test_what_hangs_is_ended_after_the_time_limit(name: str) -> None:
    check(run(name, examples=16, case_timeout=1.0), "timeout", "no answer within 1 s")


def test_what_takes_all_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated.Limits, "most_bytes", property(lambda self: 1 << 29))
    check(run("Hoards", examples=16), "crash", "GiB of memory and was ended")


def test_noise_on_standard_output_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    found = run("Noisy")
    assert {r.verdict.value for r in found.results} <= {"exact", "inconclusive"}
    assert "noise" not in "".join(capfd.readouterr())


def test_a_removed_device_is_unavailable_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMOVED", str(tmp_path / "removed"))
    found = run("Removed")
    values = [r.verdict.value for r in found.results]
    assert "crash" in values
    after = values[values.index("crash") + 1 :]
    assert "unavailable" in after
    assert set(after) <= {"crash", "unavailable"} | set(values[: values.index("crash")])
    assert any("the device was removed" in r.explanation for r in found.results)


def test_an_operator_that_kills_its_process_again_and_again_is_put_into_quarantine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BAD_EVERY", "1")
    found = run("AlwaysAborts")
    counts = [r.verdict.value for r in found.results]
    assert counts.count("crash") == DEATHS_IN_A_ROW
    rest = [r for r in found.results if r.verdict.value == "unavailable"]
    assert len(rest) == len(counts) - DEATHS_IN_A_ROW
    assert (
        "in quarantine: neg ended its process, or had it ended, several times in a row"
        in rest[0].explanation
    )


def test_isolated_results_are_those_of_the_process_itself() -> None:
    names = ["add", "matmul", "sort", "nn.functional.conv2d", "linalg.svd", "bernoulli"]
    found = consistency.run(
        names, ["cpu+threads=1", "cpu+threads=1+isolated"], examples=6, shipped=False
    )
    by_backend: dict[str, dict[tuple[str, str], consistency.Result]] = {}
    for result in found.results:
        by_backend.setdefault(result.backend, {})[result.case.id, result.direction] = result
    here, there = by_backend["cpu+threads=1"], by_backend["cpu+threads=1+isolated"]
    assert here.keys() == there.keys()
    for key, result in here.items():
        other = there[key]
        assert other.verdict.group == result.verdict.group, (result.explanation, other.explanation)
        apart = abs(other.metrics.get("rho_max", 0.0) - result.metrics.get("rho_max", 0.0))
        assert apart < 0.5, (
            "memory lies otherwise there, and so sums are taken in another order, but no more"
        )


def test_a_backend_says_why_its_process_cannot_be_used(tmp_path: Path) -> None:
    absent = backends.resolve(f"cpu@{tmp_path / 'nothing'}")
    assert str(backends.availability(absent)).startswith(
        "its worker process could not be started: No such file"
    )
    bare = tmp_path / "bare.py"
    bare.write_text("raise ValueError('no such card')", encoding="utf-8")
    broken = backends.resolve(f"{bare}:Mine+isolated")
    assert "raised ValueError: no such card (bare.py:1)" in str(backends.availability(broken))
    broken.close()


@pytest.mark.parametrize(("spec", "message"), [
    ("@/usr/bin/python", "which one? Write cpu@/usr/bin/python"),
    ("cpu@", "expected the path of a Python interpreter after @"),
    ("cpu+env:=3", "'env:=3' sets no variable"),
    ("cpu+env:NAME", "'env:NAME' sets no variable"),
    ("cpux+isolated", "there is no backend 'cpux'; did you mean cpu"),
    ("cpu+onednn=maybe@python", "expected onednn=on|off"),
])  # fmt: skip
def test_specs_of_processes_are_checked(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        backends.resolve(spec)
    assert message in str(error.value)


def test_a_function_of_ones_own_cannot_run_elsewhere() -> None:
    with pytest.raises(UsageError, match="runs in a process of its own"):
        consistency.assert_consistent(torch.exp, torch.ones(3), backends=["cpu+isolated"])


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_workers_end_with_the_run_that_was_killed(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "consistency", "run", "neg", "exp", "--dtype", "float32",
        "--examples", "400",
    ]  # fmt: skip
    command += [
        "--backend",
        "cpu+isolated",
        "--backend",
        f"{FILE}:Sleeps+isolated",
        "--out",
        str(tmp_path / "b"),
    ]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    results = tmp_path / "b" / "results.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (results.exists() and results.stat().st_size > 0):
        time.sleep(0.02)
    workers = psutil.Process(running.pid).children(recursive=True)
    assert workers
    running.kill()
    running.wait()
    _, alive = psutil.wait_procs(workers, timeout=10.0)
    assert alive == []


def accounted(count: int) -> Counter[str]:
    """The verdicts of ``count`` distinct small cases on a backend that dies in one of a hundred."""
    operator = operators.get("neg")
    backend = backends.resolve(f"{FILE}:Dies+isolated")
    cases = [
        Case("neg", "float32", (TensorRecipe((1 + k % 7,), "float32", stop=8 + k),))
        for k in range(count)
    ]
    rules = tolerances.load()
    keys: Counter[tuple[str, str, str]] = Counter()
    verdicts: Counter[str] = Counter()
    try:
        for position, case in enumerate(cases):
            backend.prefetch(
                (operator, coming, "forward")
                for coming in cases[position : position + isolated.AHEAD]
            )
            for result in evaluation.evaluate(case, [backend], rules, directions=("forward",)):
                keys[result.key] += 1
                verdicts[result.verdict.value] += 1
    finally:
        backend.close()
    assert set(keys.values()) == {1}
    assert len(keys) == count == verdicts.total()
    assert verdicts.keys() <= {"exact", "inconclusive", "crash"}
    return verdicts


def test_every_case_is_accounted_for_once_however_many_die() -> None:
    assert accounted(1500)["crash"] > 0


@pytest.mark.nightly
def test_a_hundred_thousand_cases_are_accounted_for_once() -> None:
    assert 800 < accounted(100_000)["crash"] < 1200


@pytest.mark.nightly
def test_memory_that_grows_from_call_to_call_is_told() -> None:
    grown: list[MemoryGrowth] = []

    def keep(event: Event) -> None:
        if isinstance(event, MemoryGrowth):
            grown.append(event)

    consistency.run(
        ["neg"],
        [f"{FILE}:Leaks+isolated", "cpu+isolated"],
        ["float32"],
        directions=["forward"],
        examples=20,
        handlers=[keep],
    )
    (leak,) = grown
    assert (leak.operator, leak.backend) == ("neg", f"{FILE}:Leaks+isolated")
    assert 0.9 * 2**20 < leak.bytes < 1.2 * 2**20


def test_a_project_gives_its_backends_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.consistency.backends]\nslow = "cpu+threads=1"\n', encoding="utf-8"
    )
    slow = backends.resolve("slow")
    assert (slow.name, slow.tolerance_key) == ("slow", "cpu+threads=1")
    (tmp_path / "backends.yaml").write_text("apart: cpu+isolated\n", encoding="utf-8")
    assert backends.resolve("apart").tolerance_key == "cpu+isolated"
    with pytest.raises(UsageError, match="there is no backend 'aparts'; did you mean apart"):
        backends.resolve("aparts")
    assert "apart" in [backend.name for backend in backends.catalog()]


@pytest.mark.parametrize(("text", "message"), [
    ("apart: 3\n", "backends.apart: 3 is no spec; write one such as cuda:1+tf32"),
    ("a b: cpu\n", "backends.a b: a name is made of letters"),
    ("- cpu\n", "backends: expected names with a spec each"),
    ("apart: [cpu\n", "backends.yaml:2  cannot be read"),
])  # fmt: skip
def test_a_file_of_names_is_checked(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "backends.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(consistency.ConfigurationError) as error:
        backends.resolve("apart")
    assert message in str(error.value)


@pytest.mark.nightly
def test_what_torch_compiles_is_judged() -> None:
    found = consistency.run(
        ["exp", "softmax"],
        ["cpu+compile"],
        ["float32"],
        directions=["forward"],
        examples=3,
        case_timeout=120.0,
    )
    assert {r.verdict.value for r in found.results} <= {"rounding", "exact", "inconclusive"}
    assert any(r.verdict.tested for r in found.results)


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="sends SIGKILL")
def test_a_killed_run_is_completed_and_nothing_judged_twice(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    command = ["run", "neg", "exp", "--dtype", "float32", "--examples", "60", "--no-shrink"]
    command += ["--backend", "cpu", "--backend", "cpu+isolated", "--out", str(folder)]
    running = subprocess.Popen(
        [sys.executable, "-m", "consistency", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    results = folder / "results.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (results.exists() and results.stat().st_size > 20_000):
        time.sleep(0.01)
    workers = psutil.Process(running.pid).children(recursive=True)
    running.kill()
    running.wait()
    _, alive = psutil.wait_procs(workers, timeout=10.0)
    assert alive == []
    before = bundle.read_results(folder)
    resumed = CliRunner().invoke(main, [*command, "--resume"])
    assert resumed.exit_code == 0, resumed.output
    after = bundle.read_results(folder)
    assert [r.key for r in after[: len(before)]] == [r.key for r in before]
    assert len({r.key for r in after}) == len(after) > len(before) > 0
    assert bundle.read_header(folder)["complete"] is True
