"""The whole program on a device that behaves like the real wheel: it exists only after an import,
its default adapter is not the first, moves lose casts; and each vice is blamed on it by name."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import consistency
from consistency import backends, operators
from consistency.backends._directml_adapters import adopt, discover, known
from consistency.backends.subprocess.spare_workers import MOST
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from tests.support import private_device
from tests.support.commands import command
from tests.support.running import unshrunk

Plug = Callable[..., None]

pytestmark = pytest.mark.skipif(
    bool(private_device.why_impossible()), reason=private_device.why_impossible() or "-"
)


@pytest.fixture(scope="module")
def built(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = getattr(pytestconfig, "cache", None)
    return private_device.library(
        cache.mkdir("private_device") if cache else tmp_path_factory.mktemp("private_device")
    )


@pytest.fixture(scope="module")
def adapters(built: Path) -> object:
    """What a child process finds of the device without vices, for all tests that do not ask how it
    is found."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in private_device.variables(built).items():
            patch.setenv(name, value)
        patch.syspath_prepend(private_device.PACKAGE)
        importlib.invalidate_caches()
        adopt(None)
        discover()
        return known()


@pytest.fixture
def plug(
    built: Path, adapters: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Plug]:
    """Gives this process, and those that it begins, the device with some vices; ``found`` says
    whether its adapters are known."""
    monkeypatch.chdir(tmp_path)

    def install(vices: str = "", seconds: float = 0.0, found: bool = True) -> None:
        for name, value in private_device.variables(built, vices, seconds).items():
            monkeypatch.setenv(name, value)
        monkeypatch.syspath_prepend(private_device.PACKAGE)
        importlib.invalidate_caches()
        adopt(adapters if found else None)

    yield install
    adopt(None)


def results(operators: str, **options: object) -> list[Result]:
    given: dict[str, object] = {
        "examples": 2, "dtypes": ["float32"], "directions": ["forward"],
    } | options  # fmt: skip
    return list(unshrunk(operators.split(), ["directml"], **given).results)  # type: ignore[arg-type]


PLAIN = "exp add matmul sum nn.functional.conv2d cumsum index_select"


@pytest.mark.nightly
def test_a_healthy_device_passes(plug: Plug) -> None:
    """Also where the adapter is not the one that torch takes by default, and moves lose casts."""
    plug("lost-cast")
    found = results(
        PLAIN,
        dtypes=["float32", "int64"],
        directions=["forward", "backward"],
    )
    assert [r.explanation for r in found if r.verdict.fails] == []
    assert {r.verdict.value for r in found} <= {"exact", "rounding", "inconclusive"}
    assert {r.operator for r in found if r.verdict.tested} == set(PLAIN.split())
    assert {r.operator for r in found if r.verdict.value == "rounding"} >= {"exp", "matmul"}


# What a device of this kind computes wrongly where it is written without care: results that an
# operator writes into its arguments, copies of conjugated numbers, views with another dtype, memory
# got from the adapter that happens to be current, products that overflow.
DELICATE = """
    nn.functional.batch_norm nn.functional.batch_norm.train_then_eval linalg.det linalg.slogdet
    logsumexp fft.hfft fft.irfft signal.windows.hann formula.gather ldexp special.i0e special.entr
    nn.functional.softsign add.out _foreach_add_ split index_put
"""


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.nightly)])
def test_a_healthy_device_is_not_accused(plug: Plug, dtype: str) -> None:
    """It has the CPU's kernels, and with them what is wrong there in this version of torch."""
    plug()
    found = unshrunk(DELICATE.split(), ["cpu", "directml"], [dtype], examples=1).results
    known_of_the_cpu = {
        (r.case.id, r.direction) for r in found if r.backend == "cpu" and r.verdict.diverges
    }
    device = [r for r in found if r.backend == "directml"]
    accused = [
        (r.operator, r.explanation)
        for r in device
        if r.verdict.fails and (r.case.id, r.direction) not in known_of_the_cpu
    ]
    assert accused == []
    with_dtype = {name for name in DELICATE.split() if dtype in operators.get(name).dtypes}
    assert {r.operator for r in device if r.verdict.tested} == with_dtype


# Operator, and what a verdict and its explanation must say.
VICES = {
    "crash": ("exp", r"crash: exp: the process ended \(SIGSEGV\)"),
    "abort": ("tanh", r"crash: tanh: the process ended \(SIGABRT\)"),
    "hang": ("cos", "timeout: cos: no answer within 2 s"),
    "raises": ("sin", "error: .*Unknown error -2147024809"),
    "removed": ("tan", "error: .*device instance has been removed"),
    "falls-back": ("asinh", "fallback: .*aten::asinh"),
    "wrong": ("sigmoid", "divergent: .*a factor of 1.01 explains"),
    "nan": ("sqrt", "special-values: NaN differs"),
    "random": ("erf", "nondeterministic: .*repeats gave another answer"),
    "half": ("log", "reduced-precision: .*results rounded to float16 explain"),
    "no-nan": ("maximum", "special-values: NaN differs"),
    "changes-input": ("neg", "structure: argument 0 was modified"),
    "unwritten": ("cumsum", "divergent: |special-values: "),
    "ignores-out": ("atan.out", "not the tensor given as out|left unchanged"),
    "lost-write": ("clamp_", "writes to the view are lost"),
    "widens": ("index_select", "structure: .*float64"),
}


def test_each_vice_is_blamed_on_the_device_by_name(plug: Plug) -> None:
    """One run in which every operator has another vice: none is taken for its neighbor's."""
    plug(" ".join(f"{op.split('.')[0].strip('_')}={vice}" for vice, (op, _) in VICES.items()))
    found = results(" ".join(op for op, _ in VICES.values()) + " add mul", case_timeout=2.0)
    told = {r.operator: "" for r in found}
    for r in found:
        told[r.operator] += f"{r.verdict.value}: {r.explanation}\n"
    assert {v: told[op] for v, (op, text) in VICES.items() if not re.search(text, told[op])} == {}
    assert {r.backend for r in found} == {"directml"}
    healthy = [r for r in found if r.operator in ("add", "mul")]
    assert len(healthy) >= 4
    assert not any(r.verdict.fails for r in healthy)


def test_integers_that_pass_through_float32(plug: Plug) -> None:
    plug("mul=int-as-float32")
    found = results("mul", dtypes=["int64"], examples=16)
    failing = [r for r in found if r.verdict.fails]
    assert {r.verdict.value for r in failing} == {"divergent"}
    assert any("integer arithmetic goes through float32" in r.explanation for r in failing)


@pytest.mark.nightly
def test_a_device_without_float64(plug: Plug) -> None:
    plug("no-float64", found=False)
    found = results("add", dtypes=["float64", "float32"])
    assert {r.verdict.value for r in found if r.dtype == "float64"} == {"unsupported"}
    assert {r.verdict.value for r in found if r.dtype == "float32"} <= {"exact", "rounding"}


@pytest.mark.nightly
def test_a_model_on_a_device_that_loses_casts(plug: Plug) -> None:
    """Its process imports the device's package before it asks which device that is, and casts
    samples on the CPU. The wrong adapter is noticed."""
    plug("lost-cast")
    report = consistency.compare_models(
        "examples:mlp", ["directml", "directml:1", "directml:0"], steps=2
    )
    default, second, first = report.backends.values()
    for right in (default, second):
        assert (right.verdict, right.absent, right.lost) == ("within the band", "", "")
        assert right.calls > 50
    assert "leaves" in first.verdict


@pytest.mark.nightly
def test_a_wrong_operator_of_a_model_is_named(plug: Plug) -> None:
    plug("lost-cast relu=wrong")
    report = consistency.compare_models("examples:mlp", ["directml"], steps=1)
    (only,) = report.backends.values()
    assert only.verdict.startswith("leaves it at step 1, first at aten.relu in ReLU")


@pytest.mark.nightly
def test_a_program_on_the_device_is_watched(plug: Plug, tmp_path: Path) -> None:
    plug("lost-cast sigmoid=wrong")
    program = """
import json, sys
import torch, torch_directml, consistency
x = torch.linspace(-3, 3, 50).to(torch_directml.device())
with consistency.watch([]) as watched:
    torch.sigmoid(x) * 2 + x
rows = [(r.operator, r.backend, r.verdict.value, r.explanation) for r in watched.results]
print(json.dumps(rows))
"""
    path = f"import sys; sys.path.insert(0, {str(private_device.PACKAGE)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", path + program], capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {backend for _, backend, *_ in rows} == {"directml:1 (this process)"}
    verdicts = {operator: verdict for operator, _, verdict, _ in rows}
    assert verdicts == {
        "aten.sigmoid": "divergent", "aten.mul": "exact", "aten.add": "rounding",
    }  # fmt: skip


@pytest.mark.nightly
def test_crashes_do_not_wait_for_the_import(plug: Plug) -> None:
    """Adapters are looked for once and spare workers open beside the first one: in a row of
    crashes each case goes to a spare that has imported the package, the first like the others."""
    plug("exp=crash", seconds=2.0, found=False)
    backend = backends.isolated(backends.resolve("directml"), "directml")

    def run(name: str, stop: int = 100) -> str:
        case = Case(name, "float32", (TensorRecipe((3,), "float32", stop=stop),))
        return backend.run(operators.get(name), prepare(case)).status

    try:
        assert run("neg") == "ok"
        spares = list(backend._spares._open)
        assert len(spares) == MOST
        until = time.monotonic() + 120.0
        while any(spare._replies.empty() for spare in spares) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(spare._replies.empty() for spare in spares)
        worked = [backend._worker]
        for stop in range(100, 100 + MOST):
            assert run("exp", stop) == "crash"
            worked.append(backend._worker)
        assert run("neg", 101) == "ok"
        worked.append(backend._worker)
        assert [spare for spare in spares if spare not in worked] == []
    finally:
        backend.close()


def test_only_a_run_keeps_spares(plug: Plug) -> None:
    """Who asks what a device is pays for one process."""
    plug("", seconds=0.5)
    backend = backends.isolated(backends.resolve("directml"), "directml")
    try:
        assert backend.why_unavailable() is None
        assert len(backend._spares._open) <= 1
    finally:
        backend.close()


@pytest.mark.nightly
def test_sweep_repro_explain_and_fingerprint(plug: Plug, tmp_path: Path) -> None:
    plug("lost-cast sigmoid=wrong exp=raises")
    swept = command("sweep sigmoid --backend directml --dtype float32")
    assert "leaves the budget" in swept.output, swept.output
    raised = command("sweep exp --backend directml --dtype float32")
    assert "Unknown error -2147024809" in raised.output, raised.output
    run = command(
        "run sigmoid --backend directml --dtype float32 --direction forward --examples 2 --out {}",
        tmp_path / "bundle",
    )
    assert run.exit_code == 1, run.output
    folder = sorted((tmp_path / "bundle" / "failures").iterdir())[0]
    again = command("repro {} --backend directml", folder)
    assert again.exit_code == 1, again.output
    assert "a factor of 1.01 explains" in again.output
    shown = command("fingerprint --backend directml --json")
    assert shown.exit_code == 0, shown.output
    explained = command("explain linear 'x @ W.T + b' --shape 2,16,4 --backend directml")
    assert explained.exit_code == 0, explained.output
