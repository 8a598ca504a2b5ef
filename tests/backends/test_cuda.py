"""CUDA: reasons and switches with a pretended device; on a real one also that float32 is
float32."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from consistency.backends import cuda, resolve
from consistency.backends.cuda import Cuda
from consistency.backends.listing import describe
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.errors import UsageError
from consistency.generate.materialize import Materials, prepare
from consistency.operators.declare import Operator, call

real = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
NEWER = hasattr(torch._C, "_get_fp32_precision_getter")


def operator(name: str) -> Operator:
    return Operator(name=name, family="test", sample=lambda d: call())


def materials(
    name: str,
    *shapes: tuple[int, ...],
    dtype: str = "float32",
    values: tuple[Any, ...] | None = None,
) -> Materials:
    values = values or ("uniform", -1.0, 1.0)
    return prepare(
        Case(
            name,
            dtype,
            tuple(TensorRecipe(s, dtype, values, 9000 * (i + 1)) for i, s in enumerate(shapes)),
        )
    )


def state() -> dict[str, Any]:
    """Every switch that the backend may touch."""
    matmul: Any = torch.backends.cuda.matmul
    names = (
        "fp16_reduced_precision_reduction",
        "bf16_reduced_precision_reduction",
        "fp16_accumulation",
    )
    found = {name: getattr(matmul, f"allow_{name}", None) for name in names}
    found |= {f"{name} split": getattr(matmul, f"allow_{name}_split_k", None) for name in names[:2]}
    found |= {"benchmark": torch.backends.cudnn.benchmark, "always": torch.is_warn_always_enabled()}
    found["deterministic"] = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    if NEWER:
        ops = [("cuda", op) for op in ("matmul", "conv", "rnn", "all")] + [
            ("generic", "all"),
            ("mkldnn", "matmul"),
        ]
        found |= {" ".join(op): torch._C._get_fp32_precision_getter(*op) for op in ops}  # type: ignore[attr-defined]
    for name, read in (
        ("older matmul", lambda: matmul.allow_tf32),
        ("older cudnn", lambda: torch.backends.cudnn.allow_tf32),
        ("older precision", torch.get_float32_matmul_precision),
    ):
        try:
            found[name] = read()
        except RuntimeError:
            found[name] = "does not say"
    return found


def tf32() -> tuple[bool, bool]:
    """Whether TF32 is on for matrix products and for convolutions, as torch itself decides."""
    if NEWER:
        read: Any = torch._C._get_fp32_precision_getter  # type: ignore[attr-defined]
        return read("cuda", "matmul") == "tf32", read("cuda", "conv") == "tf32" and read(
            "cuda", "rnn"
        ) == "tf32"
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


# --- why there is no device


def pretend(
    monkeypatch: pytest.MonkeyPatch,
    available: Any = True,
    count: int = 1,
    warning: str = "",
    init: str = "",
) -> None:
    """A torch built with CUDA, on a machine that answers as told."""

    def is_available() -> bool:
        if warning:
            warnings.warn(warning, UserWarning, stacklevel=2)
        if isinstance(available, Exception):
            raise available
        return bool(available)

    def initialize() -> None:
        if init:
            raise RuntimeError(init)

    monkeypatch.setattr(torch.version, "cuda", "12.1")
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "init", initialize)


OLD = (
    "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). "
    "Please update your GPU driver by downloading and installing a new version. (Triggered "
    "internally at ../c10/cuda/CUDAFunctions.cpp:108.)"
)
NONE = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
    "installed a driver from …"
)
UNKNOWN = (
    "CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up "
    "environment. (Triggered at x)"
)


@pytest.mark.parametrize(
    ("machine", "index", "reason"),
    [
        ({"available": False, "warning": OLD}, 0, ("the NVIDIA driver is too old for this torch "
        "(CUDA 12.1)")),
        ({"available": False, "init": NONE}, 0, "no NVIDIA driver"),
        ({"available": False, "warning": UNKNOWN}, 0,
         ("no CUDA device: CUDA unknown error - this may be due to an incorrectly set up "
         "environment.")),
        ({"available": False, "init": "No CUDA GPUs are available"}, 0,
        "no CUDA device: No CUDA GPUs are available"),
        ({"available": False}, 0, "no CUDA device"),
        ({"available": OSError("nvml")}, 0, "looking for CUDA devices raised OSError: nvml"),
        ({"count": 0}, 0, "no CUDA device"),
        ({"count": 1}, 1, "there is no cuda:1, only 1 device"),
        ({"count": 2}, 1, None),
    ],
)  # fmt: skip
def test_reasons(
    monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], index: int, reason: str | None
) -> None:
    pretend(monkeypatch, **machine)
    assert Cuda(index=index).why_unavailable() == reason


def test_a_cpu_build_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    assert Cuda().why_unavailable() == f"torch {torch.__version__} is a CPU build"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_running_without_a_device_is_an_outcome() -> None:
    outcome = Cuda().run(operator("neg"), materials("neg", (3,)))
    assert outcome.status == "unavailable"
    assert outcome.message == Cuda().why_unavailable()


# --- switches


def test_switches_that_do_not_exist() -> None:
    with pytest.raises(
        UsageError, match=r"CUDA has no switch 'bf16'; known: tf32, deterministic, benchmark"
    ):
        resolve("cuda+bf16")


@pytest.mark.parametrize("spec", [
    "cuda",
    "cuda+tf32",
    "cuda+deterministic",
    "cuda+benchmark",
    "cuda+tf32+deterministic+benchmark",
])  # fmt: skip
def test_switches_hold_inside_and_are_restored(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    backend, before = resolve(spec), state()
    try:
        with backend.switches():
            now = state()
            assert tf32() == (("tf32" in spec),) * 2
            assert now["benchmark"] == ("benchmark" in spec)
            assert now["deterministic"][0] == ("deterministic" in spec)
            assert now["always"]
            assert not now["fp16_reduced_precision_reduction"]
            assert not now["bf16_reduced_precision_reduction"]
            assert not now["fp16_accumulation"]
            assert now["older matmul"] == ("tf32" in spec)  # still answers, to kernels that ask
            assert now["older cudnn"] == ("tf32" in spec)
            raise KeyError
    except KeyError:
        pass
    assert state() == before
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (
        ":4096:8" if "deterministic" in spec else None
    )


def older(matmul: bool, cudnn: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


def newer(owner: Any, precision: str) -> None:
    owner.fp32_precision = precision


def half(value: Any) -> None:
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = value
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = value


@pytest.fixture
def as_it_was() -> Iterator[None]:
    before = state()
    yield
    torch.use_deterministic_algorithms(False)
    half(True)
    torch.set_float32_matmul_precision("highest")
    older(False, True)
    if NEWER:
        newer(torch.backends, "none")
        for op in (("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn"), ("mkldnn", "matmul")):
            torch._C._set_fp32_precision_setter(*op, before[" ".join(op)])  # type: ignore[attr-defined]
    assert state() == before


@pytest.mark.usefixtures("as_it_was")
@pytest.mark.parametrize("spec", ["cuda", "cuda+tf32"])
@pytest.mark.parametrize(
    "around",
    [
        pytest.param(lambda: older(True, False), id="older"),
        pytest.param(lambda: torch.set_float32_matmul_precision("high"), id="high"),
        pytest.param(lambda: torch.set_float32_matmul_precision("medium"), id="medium"),
        pytest.param(lambda: half(False), id="half"),
        pytest.param(
            lambda: torch.use_deterministic_algorithms(True, warn_only=True), id="deterministic"
        ),
        pytest.param(lambda: newer(torch.backends.cuda.matmul, "tf32"), id="newer matmul"),
        pytest.param(lambda: newer(torch.backends.cudnn.conv, "ieee"), id="newer conv"),  # type: ignore[attr-defined]
        pytest.param(lambda: newer(torch.backends, "tf32"), id="newer all"),
        pytest.param(lambda: half((False, False)), id="split"),
    ],
)
def test_a_program_that_has_set_switches_finds_them_again(
    around: Callable[[], None], spec: str, request: pytest.FixtureRequest
) -> None:
    if not NEWER and any(word in request.node.name for word in ("newer", "split")):
        pytest.skip("this torch has only the older interface")
    around()
    before = state()
    for _ in range(2):
        with resolve(spec).switches():
            assert tf32() == ("tf32" in spec,) * 2
        assert state() == before


def test_a_workspace_that_was_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    resolve("cuda+deterministic")
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


# --- after a failure, and the environment


@pytest.fixture
def found_again() -> Iterator[None]:
    yield
    Cuda.lost = ""


@pytest.mark.usefixtures("found_again")
def test_a_lost_context_and_memory_that_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[bool] = []
    pretend(monkeypatch)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    one, other = Cuda(), Cuda("cuda+tf32", switches={"tf32": ""})
    one.recover("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB.")
    assert emptied == [True]
    one.recover("RuntimeError", "CUDA error: invalid argument")
    assert other.why_unavailable() is None
    one.recover("AcceleratorError", "CUDA error: an illegal memory access was encountered")
    reason = (
        "the CUDA context of this process was lost in an earlier case: CUDA error: an "
        "illegal memory access was encountered"
    )
    assert other.why_unavailable() == reason


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "NVIDIA Pretended 9000")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 90100)
    nvml = SimpleNamespace(nvmlInit=lambda: None, nvmlSystemGetDriverVersion=lambda: b"550.54.15")
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    row = describe(Cuda("cuda+tf32", switches={"tf32": ""}))
    assert (row["device"], row["driver"], row["float64"]) == (
        "NVIDIA Pretended 9000",
        "550.54.15",
        True,
    )
    assert {"cuda 12.1", "cudnn 90100", f"torch {torch.__version__}"} <= set(row["versions"])
    environment = row["environment"]
    assert environment["compute capability"] == "9.0"
    assert environment["float32 matmul" if NEWER else "allow_tf32 matmul"] == (
        "tf32" if NEWER else "True"
    )
    assert environment["allow_bf16_reduced_precision_reduction"] == "False"
    assert environment["cudnn.benchmark"] == "False"


def test_driver_version_without_pynvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert cuda.driver_version() == ""
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(
        "subprocess.run",
        lambda *args, **kwargs: SimpleNamespace(stdout="31.0.15.5222\n31.0.15.5222\n"),
    )
    assert cuda.driver_version() == "31.0.15.5222"


# --- on a real device


def relative_error(spec: str) -> float:
    case = materials("matmul", (128, 512), (512, 128))
    outcome = resolve(spec).run(operator("matmul"), case)
    assert outcome.status == "ok", outcome
    arguments = case.build("float64").args
    exact, got = arguments[0] @ arguments[1], outcome.outputs[0].tensor
    assert got is not None
    assert outcome.outputs[0].device == "cuda:0"
    return float((got - exact).abs().max() / exact.abs().max())


@real
def test_float32_is_float32_and_tf32_is_not() -> None:
    assert relative_error("cuda") < 1e-6
    if torch.cuda.get_device_capability(0) >= (8, 0):
        assert 1e-5 < relative_error("cuda+tf32") < 1e-2
    assert relative_error("cuda+deterministic") < 1e-6


@real
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_exp_on_the_device(direction: str) -> None:
    case = materials("exp", (1000,))
    outcome = resolve("cuda").run(operator("exp"), case, direction)
    host = resolve("cpu").run(operator("exp"), case, direction)
    assert outcome.status == "ok"
    assert outcome.outputs[0].tensor is not None
    torch.testing.assert_close(outcome.outputs[0].tensor, host.outputs[0].tensor)


@real
def test_running_out_of_memory_costs_one_case() -> None:
    huge = Operator(
        name="mul",
        family="test",
        sample=lambda d: call(),
        function=lambda a: a.expand(1 << 20, 1 << 20) + 1,
    )
    outcome = resolve("cuda").run(huge, materials("mul", (1,)))
    assert (outcome.status, outcome.exception) == ("raised", "OutOfMemoryError")
    assert relative_error("cuda") < 1e-6
