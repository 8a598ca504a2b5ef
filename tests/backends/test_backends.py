"""Specs, users' own backends, and that Backend.run turns whatever a backend does into an
Outcome."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import backends
from consistency.backends import Backend, TorchBackend
from consistency.backends._messages import text_of
from consistency.backends._outputs import MAX_OUTPUTS
from consistency.backends.cpu import Cpu
from consistency.backends.devices import Device, why_absent
from consistency.backends.listing import describe
from consistency.core.model import Case, Outcome
from consistency.core.recipe import DType, TensorRecipe
from consistency.core.text import MAX_MESSAGE
from consistency.errors import RecipeError, Unsupported, UsageError
from consistency.generate.materialize import Materials, prepare
from consistency.operators.declare import Operator, call
from tests.support.snapshots import Snapshot


def operator(name: str = "mul", **changes: Any) -> Operator:
    return Operator(name=name, family="test", sample=lambda d: call(), **changes)


def materials(
    name: str = "mul", *shapes: tuple[int, ...], dtype: str = "float32", **more: Any
) -> Materials:
    args = tuple(
        TensorRecipe(shape, dtype, stop=100 * (i + 1))
        for i, shape in enumerate(shapes or ((3,), (3,)))
    )
    return prepare(Case(name, dtype, args, more, cotangent=7))


class Mine(Backend):
    """A backend whose ``call`` is a function of the test."""

    name = "mine"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
        return self.function(*args)


def run(function: Callable[..., Any], direction: str = "forward") -> Outcome:
    return Mine(function).run(operator(), materials(), direction)


# --- specs


@pytest.mark.parametrize(("spec", "name", "device"), [
    ("cpu", "cpu", "cpu"),
    (" cpu + onednn = off ", "cpu+onednn=off", "cpu"),
    ("cpu+threads=1+onednn=on", "cpu+threads=1+onednn=on", "cpu"),
    ("numpy", "numpy", "cpu"),
    ("cuda", "cuda", "cuda:0"),
    ("cuda:1+tf32", "cuda:1+tf32", "cuda:1"),
    ("directml+tiled=off", "directml+tiled=off", "privateuseone:0"),
    ("mps", "mps", "mps"),
    ("xpu:1", "xpu:1", "xpu:1"),
    ("hpu", "hpu", "hpu"),
])  # fmt: skip
def test_spec(spec: str, name: str, device: str) -> None:
    backend = backends.resolve(spec)
    assert (backend.name, backend.device) == (name, device)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nump", "there is no backend 'nump'; did you mean numpy?"),
        ("dml", "there is no backend 'dml'; did you mean directml?"),
        ("gpu", "there is no backend 'gpu'; did you mean cuda?"),
        ("CUDA", "there is no backend 'CUDA'; did you mean cuda?"),
        ("cdua:1", "there is no backend 'cdua'; did you mean cuda?"),
        ("", "expected a name such as cpu, numpy"),
        ("cuda:", "expected a name such as cpu, numpy"),
        ("cuda:one", "'one' is no device number"),
        ("cpu:0", "cpu takes no device number; write 'cpu'"),
        ("cpu+", "a + without a switch behind it"),
        ("cpu+threads=1+threads=2", "threads is given twice"),
        ("cpu+thread=1", "the CPU has no switch 'thread'; did you mean threads?"),
        ("cpu+isolate", "the CPU has no switch 'isolate'; known: onednn, threads"),
        ("cpu+onednn", "onednn=''; expected onednn=on|off"),
        ("cpu+flush_denormal=yes", "expected flush_denormal=on|off"),
        ("cpu+matmul=low", "expected matmul=highest|high|medium"),
        ("cpu+threads=0", "threads='0'; expected"),
        ("cuda+tf", "CUDA has no switch 'tf'; did you mean tf32?"),
        ("cuda+tf32=on", "tf32 takes no value; write +tf32"),
        ("directml+tile=off", "DirectML has no switch 'tile'; did you mean tiled?"),
        ("directml+tiled", "tiled=''; expected tiled=on|off"),
        ("numpy+threads=1", "numpy has no switches, not 'threads' either"),
        ("mps+fast", "mps has no switches"),
        (r"C:\mine\kernel.py", "which one of that file? Write C:\\mine\\kernel.py:ATTRIBUTE"),
        (r"C:\mine\kernel.py:Mine", r"there is no file C:\mine\kernel.py"),
        ("no/such/kernel.py:Mine", "there is no file no/such/kernel.py"),
        ("kernel/mine.txt:Mine", "kernel/mine.txt is not a .py file"),
        ("no_such_module:Mine", "there is no module 'no_such_module', and no device of that name"),
        ("json:lodas", "json has no 'lodas'; did you mean loads"),
        (
            "json:JSONDecoder",
            (
                "is the class JSONDecoder; expected a consistency.Backend, a subclass of it, or a "
                "function"
            ),
        ),
        (
            "json:loads",
            (
                "loads: calling it raised TypeError: loads() missing 1 required positional "
                "argument: 's'"
            ),
        ),
        ("os:sep", "sep is of type str; expected a consistency.Backend"),
    ],
)
def test_spec_that_cannot_be_used(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        backends.resolve(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_instances_classes_and_other_things() -> None:
    mine = Mine(torch.mul)
    assert backends.resolve(mine) is mine
    assert isinstance(backends.resolve(Cpu), Cpu)
    for wrong in (3, None, object()):
        with pytest.raises(UsageError, match=r"expected a consistency\.Backend"):
            backends.resolve(wrong)


def test_two_backends_of_one_name() -> None:
    assert [b.name for b in backends.resolve_all(["cpu", "numpy"])] == ["cpu", "numpy"]
    assert [b.name for b in backends.resolve_all("cpu")] == ["cpu"]
    with pytest.raises(
        UsageError,
        match=r"two backends are named 'cpu', and their results could not be told apart$",
    ):
        backends.resolve_all(["cpu", "cpu"])
    with pytest.raises(UsageError, match="give yours a `name` of its own"):
        backends.resolve_all(["cpu", TorchBackend()])


def test_a_users_file(tmp_path: Path) -> None:
    (tmp_path / "neighbor_of_mine.py").write_text("FACTOR = 2\n", encoding="utf-8")
    file = tmp_path / "kernel.py"
    file.write_text(
        "import dataclasses, sys\nimport consistency\nfrom neighbor_of_mine import FACTOR\n"
        "class Mine(consistency.TorchBackend):\n    name = 'mine'\n    device = 'cpu'\n"
        "made = Mine()\ndef factory():\n    return Mine('made')\ndef nothing():\n    return None\n"
        "class Broken(Mine):\n    def __init__(self):\n        raise KeyError('weights')\n"
        "class Leaves(Mine):\n    def __init__(self):\n        sys.exit(4)\n"
        "class Nameless(Mine):\n    def __init__(self):\n        self.name = ''\n",
        encoding="utf-8",
    )
    for attribute, name in (("Mine", "mine"), ("made", "mine"), ("factory", "made")):
        backend = backends.resolve(f"{file}:{attribute}")
        assert backend.name == name
        assert backend.run(operator(), materials()).status == "ok"
    for attribute, message in (
        ("Mien", "has no 'Mien'; did you mean Mine"),
        ("FACTOR", "FACTOR is of type int; expected"),
        ("nothing", "nothing: its result is None; expected"),
        ("Broken", "Broken: its constructor raised KeyError: 'weights' (kernel.py:14)"),
        ("Leaves", "Leaves: its constructor raised SystemExit: 4 (kernel.py:17)"),
        ("Nameless", "Nameless: its name is ''; expected a short text"),
    ):
        with pytest.raises(UsageError) as caught:
            backends.resolve(f"{file}:{attribute}")
        assert message in str(caught.value)


@pytest.mark.parametrize(("source", "message"), [
    ("1 / 0\n", "raised ZeroDivisionError: division by zero (broken.py:1)"),
    ("import no_such_module\n",
        "raised ModuleNotFoundError: No module named 'no_such_module' (broken.py:1)"),
    ("def\n", "raised SyntaxError: invalid syntax (broken.py, line 1)"),
    ("raise SystemExit\n", "raised SystemExit (broken.py:1)"),
])  # fmt: skip
def test_a_users_file_that_cannot_be_imported(tmp_path: Path, source: str, message: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(source, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        backends.resolve(f"{file}:Mine")
    assert message in str(caught.value)


def test_a_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_mine.py").write_text(
        "from consistency.backends import Backend\nclass Mine(Backend):\n    name = 'mine'\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert backends.resolve("module_of_mine:Mine").name == "mine"


def test_looking_imports_no_accelerator() -> None:
    code = (
        "import sys, consistency.backends as b\n"
        "b.resolve_all(['cpu', 'cuda+tf32', 'directml', 'mps', 'numpy'])\n"
        "print([m for m in ('torch_directml', 'pynvml', 'hypothesis', 'pytest', 'yaml', 'click') "
        "if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "[]"


# --- what is here


def test_catalog_has_a_reason_for_everything_absent() -> None:
    names = [b.name for b in backends.catalog()]
    assert {"cpu", "cpu+onednn=off", "numpy", "cuda", "directml", "mps", "xpu"} <= set(names)
    for backend in backends.catalog():
        row = describe(backend)
        assert list(row) == [
            "name",
            "available",
            "reason",
            "device",
            "driver",
            "versions",
            "float64",
            "environment",
        ]
        assert row["available"] == (row["reason"] == "")
        assert bool(row["environment"]) == row["available"]


def test_default_backends_are_all_available() -> None:
    found = backends.default_backends()
    assert [b.name for b in found][:1] == ["cpu"]
    assert "numpy" in [b.name for b in found]
    assert [b.why_unavailable() for b in found] == [None] * len(found)


def test_describe_survives_a_users_backend(snapshot: Snapshot) -> None:
    class Rude(Backend):
        name = "rude"

        def environment(self) -> dict[str, str]:
            raise OSError("no sensor")

        def has_float64(self) -> bool:
            raise ValueError("who knows")

    row = describe(Rude())
    assert row["available"]
    assert row["environment"] == {
        "device": "cpu",
        "error": "OSError: no sensor",
        "float64": "ValueError: who knows",
    }

    class Absent(Backend):
        def why_unavailable(self) -> str | None:
            raise RuntimeError("broken")

    snapshot(describe(Absent())["reason"])


@pytest.mark.parametrize(
    "device", ["meta", "privateuseone", "vulkan", "mkldnn", "hpu", "cuda:77", "xpu:77", "mps:77"]
)
def test_absent_devices_have_a_short_reason(device: str) -> None:
    reason = why_absent(device)
    assert reason
    assert len(reason) < 160
    assert "\n" not in reason
    if device != "meta":  # tensors can be made there
        outcome = TorchBackend("there", device).run(operator(), materials())
        assert (outcome.status, outcome.message) == ("unavailable", reason)


def test_a_device_of_an_extension(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    class Extension:
        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def device_count() -> int:
            return 1

    monkeypatch.setattr(torch, "hpu", Extension, raising=False)
    assert why_absent("hpu") is None
    snapshot(why_absent("hpu:1"))
    assert Device("hpu").has_float64() is None


def test_mps_has_no_float64(snapshot: Snapshot) -> None:
    snapshot(Device("mps").unsupported(operator(), "float64", "forward"))
    assert Device("mps").has_float64() is False


# --- whatever a backend does, run() returns an Outcome


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise RuntimeError("not even its text")


class Bare(BaseException):
    pass


def throw(error: BaseException) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("error", "status", "exception", "message"),
    [
        (ValueError("first\nsecond"), "raised", "ValueError", "first"),
        (ValueError(), "raised", "ValueError", ""),
        (Unprintable(), "raised", "Unprintable", "(the text of this Unprintable cannot be had)"),
        (Bare("panicked"), "raised", "Bare", "panicked"),
        (SystemExit(3), "raised", "SystemExit", "3"),
        (MemoryError(), "raised", "MemoryError", ""),
        (RecipeError("mine"), "raised", "RecipeError", "mine"),
        (Unsupported("no such thing"), "unsupported", "Unsupported", "no such thing"),
        (NotImplementedError("later"), "unsupported", "NotImplementedError", "later"),
        (RuntimeError("derivative for aten::x_backward is not implemented"), "unsupported",
         "RuntimeError", "derivative for aten::x_backward is not implemented"),
        (RuntimeError('"mul" not implemented for \'Half\''), "unsupported", "RuntimeError",
        '"mul" not implemented for \'Half\''),
        (RuntimeError("cumsum does not have a deterministic implementation"), "unsupported",
        "RuntimeError",
         "cumsum does not have a deterministic implementation"),
    ],
)  # fmt: skip
def test_raising(
    error: BaseException, status: str, exception: str, message: str, direction: str
) -> None:
    outcome = run(throw(error), direction)
    assert (outcome.status, outcome.exception, outcome.message) == (status, exception, message)
    assert outcome.outputs == ()


def test_a_huge_text_is_cut_before_anything_searches_it() -> None:
    for text in ("x" * 50_000_000, "has no " * 1_000_000, "fall back from " * 1_000_000):
        outcome = run(throw(RuntimeError(text)))
        assert (outcome.status, outcome.exception) == ("raised", "RuntimeError")
        assert len(outcome.message) <= 300
        assert len(text_of(RuntimeError(text))) < MAX_MESSAGE + 100
    refused = run(throw(RuntimeError("x" * 5_000_000 + " is not supported")))
    assert refused.status == "unsupported"  # the end is searched, too


def test_a_text_that_no_encoding_takes_becomes_one_that_is_text() -> None:
    outcome = run(throw(RuntimeError("no file \udcff, \u00b5 and \U0001f600 are there")))
    assert outcome.message == "no file ?, \u00b5 and \U0001f600 are there"


def test_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(throw(KeyboardInterrupt()))


def test_a_recipe_that_cannot_be_built_is_not_the_backends_fault() -> None:
    broken = prepare(
        Case("neg", "float32", (TensorRecipe((3,), "float32", view=(("transpose", 0, 5),)),))
    )
    with pytest.raises(RecipeError):
        Cpu().run(operator("neg"), broken)
    with pytest.raises(RecipeError):
        TorchBackend("meta", "meta").run(operator("neg"), broken)


def endless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("result", "exception", "message"),
    [
        (endless(), "RecursionError", "maximum recursion depth exceeded"),
        ([0] * (MAX_OUTPUTS + 1), "ValueError", f"returned more than {MAX_OUTPUTS} values"),
    ],
)
def test_endless_results(result: Any, exception: str, message: str, direction: str) -> None:
    outcome = run(lambda a, b: result, direction)
    assert (outcome.status, outcome.exception) == ("raised", exception)
    assert message in outcome.message


class Odd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("not with me")


def test_results_of_every_kind() -> None:
    assert [(o.name, o.tensor, o.value) for o in run(lambda a, b: None).outputs] == [
        ("out/0", None, None)
    ]
    assert [o.value for o in run(lambda a, b: "text").outputs] == ["text"]
    assert [o.name for o in run(lambda a, b: {"x": a, "y": [b, (1,)]}).outputs] == [
        "out/0",
        "out/1",
        "out/2",
    ]
    assert run(lambda a, b: ()).outputs == ()
    assert run(lambda a, b: torch.ones(7, 7)).outputs[0].dtype == "float32"
    odd = run(lambda a, b: torch.ones(2).as_subclass(Odd)).outputs[0].tensor
    assert type(odd) is torch.Tensor
    assert odd.tolist() == [1.0, 1.0]
    parameter = run(lambda a, b: torch.nn.Parameter(a)).outputs[0].tensor
    assert type(parameter) is torch.Tensor
    assert not parameter.requires_grad
    sparse = run(lambda a, b: a.to_sparse())
    assert sparse.outputs[0].tensor is not None
    assert sparse.outputs[0].tensor.layout == torch.sparse_coo
    conjugate = run(lambda a, b: torch.complex(a, b).conj().imag).outputs[0].tensor
    assert conjugate is not None
    assert not conjugate.is_neg()


def test_an_operator_that_does_not_take_its_arguments_raises() -> None:
    """As Python does: ``x.__imul__("a")`` returns NotImplemented, ``x *= "a"`` raises."""
    outcome = run(lambda a, b: NotImplemented)
    assert (outcome.status, outcome.exception) == ("raised", "TypeError")
    assert outcome.message.endswith("it does not take these arguments")


def test_results_without_numbers(snapshot: Snapshot) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def fake(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with FakeTensorMode():
            return torch.ones(3)

    outcome = run(fake)
    snapshot(outcome.message, "1")
    snapshot(run(lambda a, b: a.to("meta")).message, "2")


def test_quantized_and_nested_results(snapshot: Snapshot) -> None:
    def quantized(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.quantize_per_tensor(a, 1.0, 0, torch.qint8)

    def nested(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nested.nested_tensor([a, b[:1]])

    snapshot(run(quantized).message, "1")
    snapshot(run(nested).message, "2")


def test_modified_inputs_are_named() -> None:
    assert run(lambda a, b: b.mul_(2)).modified == (1,)
    assert run(lambda a, b: a._base.resize_(0)).modified == (0,)
    assert run(lambda a, b: a * b).modified == ()
    outcome = Mine(lambda a, b: a.mul_(b)).run(operator("mul_", mutates=(0,)), materials("mul_"))
    assert (outcome.modified, [o.name for o in outcome.outputs]) == ((), ["out/0", "arg/0"])


def test_a_backend_cannot_change_what_others_compute() -> None:
    def careless(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return a

    run(careless)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32


def test_gradients_inside_no_grad() -> None:
    with torch.no_grad():
        outcome = Cpu().run(operator(), materials(), "backward")
    assert [o.name for o in outcome.outputs] == ["grad/0", "grad/1"]
    assert all(o.tensor is not None for o in outcome.outputs)


def test_warnings_and_fallback() -> None:
    def warns(text: str) -> Callable[..., Any]:
        def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            for _ in range(3):
                warnings.warn(text, UserWarning, stacklevel=2)
            return a

        return function

    assert run(warns("careful")).warnings == ("careful",)
    for text in (
        (
            "The operator 'aten::trunc.out' is not currently supported on the DML backend and will "
            "fall back to run on the CPU."
        ),
        "Aten Op fallback from XPU to CPU happends. This may have performance implications.",
        "aten::x falls back to the CPU",
    ):
        outcome = run(warns(text))
        assert (outcome.status, outcome.message) == ("fallback", text)


def test_another_device_than_asked_for_is_visible(snapshot: Snapshot) -> None:
    class Accelerated(Backend):
        name, device = "accelerated", "cpu:0"  # the tensors made there say they lie on "cpu"

    class Elsewhere(Mine):
        device = "meta"

        def __init__(self) -> None:
            super().__init__(lambda a, b: torch.ones(3))

    assert Accelerated().run(operator(), materials()).status == "ok"
    outcome = Elsewhere().run(operator(), materials())
    assert outcome.status == "fallback"
    snapshot(outcome.message)
    assert outcome.outputs[0].device == "cpu"


def test_operators_without_tensors_are_told_the_device(snapshot: Snapshot) -> None:
    arange = operator("arange")
    case = prepare(Case("arange", "float32", (3,), {"dtype": DType("float32")}))
    assert Cpu().run(arange, case).outputs[0].device == "cpu"
    snapshot(TorchBackend("there", "meta").run(arange, case).message)


def test_a_device_that_fails_while_copying() -> None:
    class Lost(Backend):
        name, device = "lost", "hpu"
        told: tuple[str, str] | None = None

        def recover(self, exception: str, message: str) -> None:
            self.told = exception, message
            raise RuntimeError("nothing to recover")

    lost = Lost()
    outcome = lost.run(operator(), materials())
    assert outcome.status in ("raised", "unsupported")
    assert outcome.message.startswith("the inputs could not be made on hpu: ")
    assert lost.told is not None


def test_switches_are_restored() -> None:
    threads, mkldnn = torch.get_num_threads(), torch.backends.mkldnn
    seen: list[tuple[int, bool]] = []

    def look(*args: Any) -> torch.Tensor:
        seen.append((torch.get_num_threads(), bool(mkldnn.enabled)))
        raise ValueError

    class Looking(Cpu):
        def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
            return look(*args)

    outcome = Looking("cpu+threads=1+onednn=off", {"threads": "1", "onednn": "off"}).run(
        operator(), materials()
    )
    assert seen == [(1, False)]
    assert (torch.get_num_threads(), bool(mkldnn.enabled)) == (threads, True)
    assert outcome.warnings == ()


@pytest.fixture(autouse=True)
def path_as_it_was() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before
