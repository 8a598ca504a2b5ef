"""DirectML with a package that behaves like the real one in every situation it is known from; on an
adapter where there is one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from consistency import backends
from consistency.backends import _directml_adapters, _driver_versions
from consistency.backends._directml_adapters import Adapters, discover
from consistency.backends.directml import DirectML
from consistency.backends.listing import describe
from consistency.core.exit_status import death
from consistency.core.model import Case
from consistency.core.recipe import DType, TensorRecipe
from consistency.generate.materialize import Materials, prepare
from consistency.operators.declare import Operator, call
from tests.support.snapshots import Snapshot

# The interface of torch_directml 0.2.5. Each function does what SCENE says: returns, raises, hangs
# or ends the process.
FAKE = """
import os, signal, sys, time
SCENE = {scene!r}
CALLS = []

def play(name, *given):
    CALLS.append((name, *given))
    act, value = SCENE.get(name, ("return", None))
    if act == "raise":
        kinds = {{"OSError": OSError, "RuntimeError": RuntimeError, "ImportError": ImportError}}
        raise kinds[value[0]](value[1])
    if act == "segfault":
        print("half a li", end="", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if act == "exit":
        os._exit(value)
    if act == "hang":
        time.sleep(600)
    if act == "noise":
        print("DirectML says hello\\n{{\\"count\\": 99}}")
    return value

def is_available(): return play("is_available")
def device_count(): return play("device_count")
def default_device(): return play("default_device")
def device_name(device_id): return play("device_name")[device_id]
def has_float64_support(device_id=0): return play("has_float64_support")[device_id]
def disable_tiled_resources(is_disabled): play("disable_tiled_resources", is_disabled)
def device(device_id=None):
    import torch
    play("device", device_id)
    return torch.device("cpu")

play("import")
"""
ONE = {
    "is_available": ("return", True),
    "device_count": ("return", 1),
    "default_device": ("return", 0),
    "device_name": ("return", ["NVIDIA GeForce RTX 3070\0"]),
    "has_float64_support": ("return", [True]),
}
TWO = ONE | {
    "device_count": ("return", 2),
    "default_device": ("return", 1),
    "device_name": ("return", ["AMD Radeon RX 6900 XT", "Intel(R) UHD Graphics 770"]),
    "has_float64_support": ("return", [True, False]),
}
NO_DIRECTX = "libd3d12.so: cannot open shared object file: No such file or directory"
Install = Callable[[dict[str, Any]], None]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    def forget() -> None:
        discover.cache_clear()
        DirectML.tiled = None
        sys.modules.pop("torch_directml", None)

    forget()
    yield
    forget()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts the package, and what pip records of it, on the module path of this process."""

    def write(scene: dict[str, Any]) -> None:
        package, record = (
            tmp_path / "torch_directml",
            tmp_path / "torch_directml-0.2.5.dev240914.dist-info",
        )
        package.mkdir()
        record.mkdir()
        (package / "__init__.py").write_text(FAKE.format(scene=scene), encoding="utf-8")
        text = (
            "Metadata-Version: 2.1\nName: torch-directml\nVersion: "
            "0.2.5.dev240914\nRequires-Dist: torch ==2.4.1\n"
        )
        (record / "METADATA").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()

    return write


def operator(name: str, **changes: Any) -> Operator:
    return Operator(name=name, family="test", sample=lambda d: call(), **changes)


def materials(name: str, *args: Any, dtype: str = "float32", **kwargs: Any) -> Materials:
    return prepare(
        Case(name, dtype, args or (TensorRecipe((3,), dtype, stop=100),), kwargs, cotangent=7)
    )


# --- discovery


def test_not_installed(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_directml_adapters, "_installed", lambda: False)
    snapshot(DirectML().why_unavailable())


posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


@pytest.mark.parametrize(
    ("scene", "reason"),
    [
        pytest.param({"import": ("raise", ("OSError", NO_DIRECTX))},
                     (f"no DirectX here (torch-directml runs on Windows and WSL only; OSError: "
                     f"{NO_DIRECTX})"), id="no DirectX"),
        pytest.param({"import": ("raise", ("ImportError", ("DLL load failed while importing "
        "torch_directml_native")))},
                     "torch_directml cannot be imported: ImportError: DLL load failed while "
                     "importing torch_directml_native "
                     "(it needs torch==2.4.1; this is 2.13.0)", id="wrong torch"),
        pytest.param({"import": ("segfault", None)}, ("died while looking for adapters (SIGSEGV, "
        "in import)"), id="import dies",
                     marks=posix),
        pytest.param({"is_available": ("raise", ("RuntimeError", "Unknown error -2147467259"))},
                     ("no working DirectX: is_available() raised RuntimeError: Unknown error "
                     "-2147467259"), id="stubs raise"),
        pytest.param({"is_available": ("segfault", None)}, ("died while looking for adapters "
        "(SIGSEGV, in is_available)"),
                     id="stubs crash", marks=posix),
        pytest.param(ONE | {"device_count": ("raise", ("RuntimeError", ""))},
                     "no working DirectX: device_count() raised RuntimeError",
                     id="an error without text"),
        pytest.param({"is_available": ("return", False), "device_count": ("return", 0),
        "has_float64_support": ("segfault", None),
                      "device_name": ("segfault", None), "default_device": ("segfault", None)},
                     ("no adapter: DirectX is here, but no DirectX 12 graphics card that it would "
                     "list"), id="no adapter"),
        pytest.param(ONE | {"has_float64_support": ("segfault", None)},
                     "died while looking for adapters (SIGSEGV, in has_float64_support)",
                     id="dies late", marks=posix),
        pytest.param(ONE | {"device_count": ("exit", 3)}, ("died while looking for adapters (exit "
        "status 3, in device_count)"),
                     id="ends itself"),
        pytest.param(ONE | {"device_count": ("exit", 0)}, ("died while looking for adapters (exit "
        "status 0, in device_count)"),
                     id="ends quietly"),
        pytest.param(ONE, None, id="one adapter"),
        pytest.param(ONE | {"import": ("noise", None)}, None, id="talks on the standard output"),
    ],
)  # fmt: skip
def test_what_the_child_finds(
    install: Install, scene: dict[str, Any], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    install(scene)
    assert DirectML().why_unavailable() == reason
    assert "torch_directml" not in sys.modules
    if reason:
        outcome = DirectML().run(operator("neg"), materials("neg"))
        assert (outcome.status, outcome.message) == ("unavailable", reason)
        assert "torch_directml" not in sys.modules


def test_a_child_that_hangs(
    snapshot: Snapshot, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_directml_adapters, "LIMIT_SECONDS", 2.0)
    install(ONE | {"device_count": ("hang", None)})
    snapshot(DirectML().why_unavailable())


def test_a_child_that_cannot_be_started(
    snapshot: Snapshot, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(ONE)
    monkeypatch.setattr(sys, "executable", str(Path("no", "such", "python")))
    assert "no child process could be started to look for adapters" in str(
        DirectML().why_unavailable()
    )
    discover.cache_clear()
    monkeypatch.setattr(sys, "executable", "")
    snapshot(DirectML().why_unavailable())


def test_discovery_asks_once(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(ONE)
    assert discover() == Adapters(None, ("NVIDIA GeForce RTX 3070",), (True,), 0)
    monkeypatch.setattr(_directml_adapters, "_ask", None)
    assert backends.resolve("directml").why_unavailable() is None


def test_deaths_have_names() -> None:
    assert death(3221225477) == "access violation"
    assert death(-1073741819) == "access violation"
    assert death(7) == "exit status 7"


# --- which adapter --------------------------------------------------------------------------------

HERE = "0: AMD Radeon RX 6900 XT, 1: Intel(R) UHD Graphics 770"


@pytest.mark.parametrize(("spec", "index", "reason"), [
    ("directml", 1, None),
    ("directml:0", 0, None),
    ("directml:radeon", 0, None),
    ("directml:UHD Graphics", 1, None),
    ("directml:2", 2, f"there is no adapter 2; here: {HERE}"),
    ("directml:nvidia", 2, f"no adapter has 'nvidia' in its name; here: {HERE}"),
    ("directml:d", 0, f"'d' fits 2 adapters, choose by number; here: {HERE}"),
])  # fmt: skip
def test_choosing(install: Install, spec: str, index: int, reason: str | None) -> None:
    install(TWO)
    backend = backends.resolve(spec)
    assert isinstance(backend, DirectML)
    assert backend.name == spec
    assert backend.why_unavailable() == reason
    assert backend._chosen(discover())[0] == index


def test_listing_names_every_adapter(install: Install) -> None:
    install(TWO)
    rows = {
        row["name"]: row
        for row in map(describe, backends.catalog())
        if row["name"].startswith("directml")
    }
    assert list(rows) == ["directml", "directml:0"]
    assert (rows["directml"]["device"], rows["directml"]["float64"]) == (
        "Intel(R) UHD Graphics 770",
        False,
    )
    assert (rows["directml:0"]["device"], rows["directml:0"]["float64"]) == (
        "AMD Radeon RX 6900 XT",
        True,
    )
    assert "torch_directml 0.2.5.dev240914" in rows["directml"]["versions"]
    assert rows["directml"]["driver"] == ""


def test_driver_version_from_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = [("Basic Display", "10.0"), None, ("AMD Radeon RX 6900 XT", "31.0.15.5222")]

    class Key:
        def __init__(self, index: int = -1) -> None:
            self.index = index

        def __enter__(self) -> Key:
            return self

        def __exit__(self, *error: object) -> None:
            pass

    def open_key(folder: Any, name: str) -> Key:
        if isinstance(folder, Key) and adapters[int(name)] is None:
            raise PermissionError(name)
        return Key(int(name)) if isinstance(folder, Key) else Key()

    def query(key: Key, name: str) -> tuple[str, int]:
        found = adapters[key.index]
        assert found is not None
        return found[name == "DriverVersion"], 1

    fake = SimpleNamespace(
        HKEY_LOCAL_MACHINE=0,
        OpenKey=open_key,
        QueryInfoKey=lambda key: (3, 0, 0),
        QueryValueEx=query,
    )
    monkeypatch.setitem(sys.modules, "winreg", fake)
    assert _driver_versions.driver_version("AMD Radeon RX 6900 XT") == "31.0.15.5222"
    assert _driver_versions.driver_version("Another") == ""


def test_driver_version_on_wsl(tmp_path: Path) -> None:
    """From the .inf files of Windows' driver packages, in either of their encodings."""
    inf = '[Version]\nDriverVer = 06/12/2024,{}\n[Strings]\nDev = "{}"\n'
    for folder, version, name, encoding in (
        ("nv_old", "31.0.15.5222", "NVIDIA GeForce RTX 3070", "utf-16"),
        ("nv_new", "31.0.15.10001", "NVIDIA GeForce RTX 3070", "utf-16"),
        ("intel", "30.0.101.1191", "Intel(R) UHD Graphics 770", "utf-8"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.inf").write_text(inf.format(version, name), encoding=encoding)
    find = _driver_versions._from_packages
    assert find("NVIDIA GeForce RTX 3070", tmp_path) == "31.0.15.10001"
    assert find("Intel(R) UHD Graphics 770", tmp_path) == "30.0.101.1191"
    assert find("AMD Radeon", tmp_path) == ""
    assert find("AMD Radeon", tmp_path / "absent") == ""


# --- running


def test_running_opens_the_chosen_adapter(install: Install) -> None:
    install(TWO)
    outcome = backends.resolve("directml:radeon").run(operator("neg"), materials("neg"))
    assert outcome.status == "ok"
    assert sys.modules["torch_directml"].CALLS == [("import",), ("device", 0)]


def test_tiled_resources_are_switched_before_the_device_is_touched(install: Install) -> None:
    install(ONE)
    off = backends.resolve("directml+tiled=off")
    for _ in range(2):
        assert off.run(operator("neg"), materials("neg")).status == "ok"
    assert sys.modules["torch_directml"].CALLS == [
        ("import",),
        ("disable_tiled_resources", True),
        ("device", 0),
    ]
    outcome = backends.resolve("directml").run(operator("neg"), materials("neg"))
    assert outcome.status == "unavailable"
    assert "tiled resources can be switched only before a process's first tensor" in outcome.message


def test_a_device_that_does_not_open(snapshot: Snapshot, install: Install) -> None:
    install(ONE | {"device": ("raise", ("RuntimeError", "Unknown error -2005270523"))})
    outcome = DirectML().run(operator("neg"), materials("neg"))
    assert outcome.status == "unavailable"
    snapshot(outcome.message)


def test_what_is_refused_by_dtype(snapshot: Snapshot, install: Install) -> None:
    install(TWO)
    neg = operator("neg")
    snapshot(DirectML().unsupported(neg, "bfloat16", "forward"), "1")
    snapshot(DirectML().unsupported(neg, "complex64", "forward"), "2")
    snapshot(DirectML().unsupported(neg, "float64", "forward"), "3")
    assert DirectML(adapter="0").unsupported(neg, "float64", "forward") is None
    assert DirectML().unsupported(neg, "float16", "backward") is None


@pytest.mark.parametrize(("name", "args", "reason"), [
    ("to", (TensorRecipe((3,), "float32"), DType("bfloat16")), "bfloat16"),
    ("Tensor.bfloat16", (TensorRecipe((3,), "float32"),), "bfloat16"),
    ("neg", (TensorRecipe((3,), "bfloat16"),), "bfloat16"),
    ("fft.rfft", (TensorRecipe((8,), "float32"),), "complex64"),
    ("neg", (TensorRecipe((1,) * 9, "float32"),), "9 dimensions, it has at most 8"),
    ("unsqueeze", (TensorRecipe((1,) * 8, "float32"), 0), "9 dimensions, it has at most 8"),
])  # fmt: skip
def test_what_ends_the_process_is_refused_before_it_is_tried(
    install: Install, name: str, args: tuple[Any, ...], reason: str
) -> None:
    install(ONE)
    function = torch.Tensor.bfloat16 if name == "Tensor.bfloat16" else None
    outcome = DirectML().run(operator(name, function=function), materials(name, *args))
    assert (outcome.status, outcome.message) == (
        "unsupported",
        f"DirectML ends the process on {reason}",
    )


def test_warnings_that_torch_gives_once_come_with_every_case(install: Install) -> None:
    """Such as that an operator fell back to the CPU, where the device's library says it the way
    torch mostly does."""
    install(ONE)
    transposed = operator("neg", function=lambda x: x.reshape(1, 1, 3).T)
    for _ in range(2):
        (text,) = DirectML().run(transposed, materials("neg")).warnings
        assert "The use of `x.T` on tensors of dimension other than 2" in text
    assert not torch.is_warn_always_enabled()


# --- the real package, and a real adapter


@pytest.mark.skipif(not _directml_adapters._installed(), reason="torch_directml is not installed")
def test_looking_with_the_real_package_harms_nobody() -> None:
    reason = DirectML().why_unavailable()
    assert reason is None or reason.startswith(
        ("no ", "died while", "torch_directml cannot be imported")
    )
    assert "torch_directml" not in sys.modules


@pytest.mark.parametrize("name", ["add", "exp", "matmul"])
def test_on_an_adapter(name: str) -> None:
    reason = DirectML().why_unavailable()
    if reason:
        pytest.skip(reason)
    shape = (16, 16)
    args = [
        TensorRecipe(shape, "float32", stop=500 * (i + 1)) for i in range(1 if name == "exp" else 2)
    ]
    outcome = DirectML().run(operator(name), materials(name, *args))
    host = backends.resolve("cpu").run(operator(name), materials(name, *args))
    assert outcome.status == "ok", outcome
    assert outcome.outputs[0].device.startswith("privateuseone")
    torch.testing.assert_close(outcome.outputs[0].tensor, host.outputs[0].tensor)
