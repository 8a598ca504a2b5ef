"""Backends: resolve a spec such as ``cuda:1+tf32``, list those available, and define their
protocol.

A backend's module is imported when the backend is requested; the device is looked for when its
availability is queried.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..core.process_setup import resume_garbage
from ..errors import UsageError, did_you_mean
from ._specs import Spec, apart, is_users_file, parse, without_inprocess
from .base import Backend, TorchBackend, attempt, availability, refusal

if TYPE_CHECKING:
    from .runtimes.graph_runtime import GraphRuntime
    from .runtimes.runtime import Runtime

__all__ = [
    "Backend",
    "TorchBackend",
    "attempt",
    "availability",
    "catalog",
    "default_backends",
    "refusal",
    "resolve",
    "resolve_all",
    "runtime_of",
]

resume_garbage()  # torch is loaded: nothing of ours computes before


def resolve(spec: Any, *, here: bool = False) -> Backend:
    """The backend that a spec names (``cpu``, ``cuda:1+tf32``, ``file.py:attribute`` …), or a
    Backend itself.

    ``here``: this process was started for it (``+compile`` and runtimes need a process of their
    own). Raises
    UsageError in one line for an invalid spec; an absent device is no error here.
    """
    from ._user_backends import load, made

    if not isinstance(spec, str):
        return made(spec, "the backend")
    text = without_inprocess(spec.strip())
    if text != spec.strip():
        backend = resolve(text, here=here)
        if not backend.is_foreign:
            raise UsageError(
                f"backend {spec!r}: +inprocess is for backends of your own; write {text}"
            )
        return backend
    if _NAME.fullmatch(text) and text not in _KNOWN:
        from ._named_backends import named

        meant = named().get(text)
        if meant is not None:
            backend = resolve(meant) if meant != text else _unknown(text, text)
            backend.name, backend.tolerance_key = text, backend.tolerance_key or backend.name
            return backend
    elsewhere = apart(text)
    if elsewhere is not None:
        from .subprocess.backend import SubprocessBackend

        if not _in_a_file(elsewhere.spec):
            inner = resolve(elsewhere.spec)  # report mistakes in the spec at once
            if isinstance(inner, SubprocessBackend):
                raise UsageError(
                    f"backend {text!r:.80}: +isolated, @ and +env: come last, in this order: "
                    f"SPEC@PYTHON+env:NAME=VALUE"
                )
        return SubprocessBackend(text, elsewhere.spec, elsewhere.python, elsewhere.environment)
    if is_users_file(text):
        return load(text, here=here)
    parsed = parse(text)
    build = _KNOWN.get(parsed.kind)
    if build is not None:
        backend = build(parsed)
        # A runtime that is not installed says so itself, without a process.
        apart_from_run = "compile" in parsed.switches or (
            parsed.kind in _RUNTIMES and not _RUNTIMES[parsed.kind](parsed).not_installed()
        )
        if apart_from_run and not here:
            from .subprocess.backend import SubprocessBackend

            return SubprocessBackend(backend.name, text)
        return backend
    if _is_torch_device(parsed):
        return _device(parsed)
    if parsed.place and not parsed.place.isdecimal():
        if parsed.switches:
            raise UsageError(f"backend {text!r:.80}: a backend of your own takes no switches")
        return load(text, here=here)
    return _unknown(text, parsed.kind)


def is_known(text: str) -> bool:
    """Whether ``text`` begins with the name of a backend, with valid switches or not; nothing is
    imported."""
    from ._named_backends import named

    name = re.split(r"[+:@]", text, maxsplit=1)[0]
    return name in _KNOWN or name in _ACCELERATORS or name in named()


def is_spec(text: str) -> bool:
    """Whether a command can take ``text`` as a backend, by its form alone: the name of a known one
    or of a device of torch, or a place in a file or module."""
    if is_known(text) or is_users_file(text):
        return True
    try:
        parsed = parse(text)
    except UsageError:
        return False
    return _is_torch_device(parsed) or (bool(parsed.place) and not parsed.place.isdecimal())


def _unknown(text: str, kind: str) -> Backend:
    if "," in kind:
        each = " ".join(f"--backend {name.strip()}" for name in text.split(",") if name.strip())
        raise UsageError(f"there is no backend {text!r:.80}; name each by itself: {each}")
    raise UsageError(f"there is no backend {kind!r:.80}{_nearest(kind)}")


def _in_a_file(text: str) -> bool:
    """Whether a spec names a user's own backend, which may only be imported in the process meant
    for it."""
    return is_users_file(text) or (
        ":" in text and parse(text).kind not in _KNOWN and not _is_torch_device(parse(text))
    )


def isolated(backend: Backend, spec: str) -> Backend:
    """An accelerator, named by ``spec``, in its own process; any other backend unchanged."""
    if type(backend).__module__.rpartition(".")[2] not in _OF_ACCELERATORS or availability(backend):
        return backend  # an absent one reports the reason without a process
    from .subprocess.backend import SubprocessBackend

    subprocess_backend = SubprocessBackend(backend.name, backend.tolerance_key or spec)
    subprocess_backend.tolerance_key = backend.tolerance_key
    return subprocess_backend


def runtime_of(backend: Backend) -> GraphRuntime | None:
    """The runtime of ONNX graphs that a backend stands for, in this process; None of any other
    backend, and of a runtime in another environment."""
    from .runtimes.graph_runtime import GraphRuntime
    from .subprocess.backend import SubprocessBackend

    if isinstance(backend, GraphRuntime):
        return backend
    if not isinstance(backend, SubprocessBackend) or backend.python or backend.variables:
        return None
    if is_users_file(backend.spec):
        return None
    build = _RUNTIMES.get(parse(backend.spec).kind)
    runtime = build(parse(backend.spec)) if build is not None else None
    return runtime if isinstance(runtime, GraphRuntime) else None


def resolve_all(specs: Iterable[Any]) -> list[Backend]:
    """Every spec resolved, in order. Raises UsageError also if two backends have the same name."""
    resolved: dict[str, Backend] = {}
    for spec in [specs] if isinstance(specs, (str, Backend)) else specs:
        backend = resolve(spec)
        if backend.name in resolved:
            hint = (
                "; give yours a `name` of its own"
                if type(backend) is not type(resolved[backend.name])
                else ""
            )
            raise UsageError(
                f"two backends are named {backend.name!r}, and their results could not be told "
                f"apart{hint}"
            )
        resolved[backend.name] = backend
    return list(resolved.values())


def default_backends() -> list[Backend]:
    """``cpu``, ``cpu+onednn=off``, ``numpy``, and the accelerators that can be used here."""
    mkldnn: Any = torch.backends.mkldnn
    onednn = ["cpu+onednn=off"] if mkldnn.is_available() else []
    accelerators = [resolve(name) for name in _ACCELERATORS]
    return [
        *resolve_all(["cpu", *onednn, "numpy"]),
        *(b for b in accelerators if availability(b) is None),
    ]


def catalog() -> list[Backend]:
    """Every backend known by name, available or not, and each further CUDA device and DirectML
    adapter."""
    names = ["cpu", "cpu+onednn=off", "numpy", "onnxruntime", "openvino", "jax", "xla"]
    for accelerator in _ACCELERATORS:
        names += [accelerator, *_further(accelerator)]
    from ._named_backends import named

    return resolve_all([*names, *named()])


def _further(accelerator: str) -> list[str]:
    """``cuda:1``, ``cuda:2`` … if there are several."""
    if accelerator == "cuda" and availability(resolve("cuda")) is None:
        return [f"cuda:{i}" for i in range(1, torch.cuda.device_count())]
    if accelerator == "directml":
        from ._directml_adapters import discover

        return [f"directml:{i}" for i in range(len(discover().names)) if i != discover().default]
    return []


def _cpu(spec: Spec) -> Backend:
    from .cpu import Cpu

    spec.no_place()
    return Cpu(spec.name, spec.switches)


def _numpy(spec: Spec) -> Backend:
    from .numpy.backend import Numpy

    spec.no_place()
    spec.no_switches()
    return Numpy()


def _cuda(spec: Spec) -> Backend:
    from .cuda import Cuda

    return Cuda(spec.name, spec.index(), spec.switches)


def _directml(spec: Spec) -> Backend:
    from .directml import DirectML

    return DirectML(spec.name, spec.place, spec.switches)


def _onnxruntime(spec: Spec) -> GraphRuntime:
    from .runtimes.onnx_runtime import OnnxRuntime

    spec.no_place()
    return OnnxRuntime(replace(spec, kind="onnxruntime").name, spec.switches)


def _openvino(spec: Spec) -> GraphRuntime:
    from .runtimes.openvino import OpenVino

    spec.no_place()
    return OpenVino(replace(spec, kind="openvino").name, spec.switches)


def _jax(spec: Spec) -> Runtime:
    from .runtimes.jax_runtime import Jax

    spec.no_place()
    return Jax(spec.name, spec.switches)


def _xla(spec: Spec) -> Runtime:
    from .runtimes.xla import Xla

    spec.no_place()
    return Xla(spec.name, spec.switches)


def _device(spec: Spec) -> Backend:
    from .devices import Device

    spec.no_switches()
    spec.index()
    return Device(spec.name)


def _is_torch_device(spec: Spec) -> bool:
    """Whether torch knows the device type; that of an extension is known once it is imported."""
    if spec.place and not spec.place.isdecimal():
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # types that torch once had
        try:
            torch.device(spec.kind)
        except RuntimeError:
            return False
    return True


def _nearest(kind: str) -> str:
    from ._named_backends import named

    names = [*_KNOWN, *(name for name in _ACCELERATORS if name not in _KNOWN), *named()]
    hint = did_you_mean(kind.lower(), names, _OTHER_NAMES)
    return hint or (
        f"; known: {', '.join(names)}, any device type of torch, file.py:attribute, "
        f"module:attribute"
    )


_KNOWN: dict[str, Callable[[Spec], Backend]] = {
    "cpu": _cpu,
    "numpy": _numpy,
    "cuda": _cuda,
    "directml": _directml,
}
# Loaded in a process of their own only.
_RUNTIMES: dict[str, Callable[[Spec], Runtime]] = {
    "onnxruntime": _onnxruntime,
    "ort": _onnxruntime,
    "openvino": _openvino,
    "ov": _openvino,
    "jax": _jax,
    "xla": _xla,
}
_KNOWN |= _RUNTIMES
_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_ACCELERATORS = ("cuda", "directml", "mps", "xpu")
_OF_ACCELERATORS = ("cuda", "directml", "devices")
_OTHER_NAMES = {
    "dml": "directml",
    "gpu": "cuda",
    "nvidia": "cuda",
    "rocm": "cuda",
    "metal": "mps",
    "np": "numpy",
}
