"""Other torch devices (mps, xpu, those of torch extensions), and why a torch device cannot be used
here."""

from __future__ import annotations

import contextlib
import platform
import warnings
from typing import Any

import torch

from ..operators.declare import Operator
from ._messages import text_of, told
from .base import TorchBackend

_NO_FLOAT64 = frozenset({"mps"})


class Device(TorchBackend):
    """``mps``, ``xpu``, ``npu:1`` …: any device type that ``torch.device`` accepts, without
    switches of its own."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name)
        self.kind, _, index = name.partition(":")
        self.index = int(index or 0)

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if self.kind in _NO_FLOAT64 and dtype in ("float64", "complex128"):
            return f"{self.kind} has no float64"
        return super().unsupported(operator, dtype, direction)

    def has_float64(self) -> bool | None:
        if self.kind in _NO_FLOAT64:
            return False
        with contextlib.suppress(Exception):
            return bool(_module(self.kind).get_device_properties(self.index).has_fp64)
        return None

    def finish(self) -> None:
        module = _module(self.kind)
        if hasattr(module, "synchronize"):
            module.synchronize()

    def environment(self) -> dict[str, str]:
        identity = super().environment()
        with contextlib.suppress(Exception):
            identity |= _properties(self.kind, self.index)
        return identity


def why_absent(device: str) -> str | None:
    """Why tensors cannot be created on ``device`` (``mps``, ``cuda:1`` …); None if they can. Never
    raises."""
    kind, _, index = str(device).partition(":")
    try:
        if kind == "cuda":
            from .cuda import why_absent as why_no_cuda

            return why_no_cuda(int(index or 0))
        return _why_absent(kind, int(index or 0), str(device))
    except Exception as error:
        return f"looking for {device} raised {told(error)}"


def _why_absent(kind: str, index: int, device: str) -> str | None:
    match kind:
        case "cpu":
            return None
        case "meta":
            return "meta tensors hold no numbers"
        case "mps":
            if not torch.backends.mps.is_built():
                return f"torch {torch.__version__} is built without MPS (Macs only)"
            return (
                None
                if torch.backends.mps.is_available()
                else "MPS needs macOS 12.3 or newer on a Mac with Metal"
            )
    module = _module(kind)
    if module is None and kind == "privateuseone":
        # Trying would end the process where a package registered the device type without having a
        # device.
        return "no package has registered a device type here (for torch-directml ask for directml)"
    if module is not None and hasattr(module, "is_available"):
        if not module.is_available():
            return f"torch {torch.__version__} finds no {kind} device{_built_without(kind)}"
        count = int(module.device_count()) if hasattr(module, "device_count") else index + 1
        return (
            None
            if index < count
            else f"there is no {kind}:{index}, only {count} device{'s' if count != 1 else ''}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.zeros(1, device=device).cpu()
        except (NotImplementedError, RuntimeError) as error:
            if isinstance(error, NotImplementedError) or "INTERNAL ASSERT" in text_of(error):
                return f"torch {torch.__version__} has no kernels for {kind} here"
            raise
    return None


def _built_without(kind: str) -> str:
    compiled = getattr(_module(kind), "_is_compiled", None)
    return (
        " (it is built without support for it)" if compiled is not None and not compiled() else ""
    )


def _module(kind: str) -> Any:
    """``torch.xpu`` for ``xpu``, or an extension's module; None without one."""
    return getattr(torch, kind, None)


def _properties(kind: str, index: int) -> dict[str, str]:
    if kind == "mps":
        return {"device": f"{platform.processor() or 'Apple'} GPU", "macos": platform.mac_ver()[0]}
    properties = _module(kind).get_device_properties(index)
    result = {"device": str(getattr(properties, "name", kind))}
    driver = getattr(properties, "driver_version", None)
    return result | ({"driver": str(driver)} if driver else {})
