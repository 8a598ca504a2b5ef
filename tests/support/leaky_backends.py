"""Backends that compute as the CPU does and leave global state changed, for tests of the guards:
``tests/support/leaky_backends.py:NAME``.

Each leak does in one call what careless code does; ``All`` makes every leak in turn, one per call.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import ctypes.util
import decimal
import gc
import itertools
import locale
import logging
import math
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import consistency

_C: Any = torch._C
_torch: Any = torch
_functional: Any = torch.nn.functional
_kept: list[Any] = []  # what is left open must not be collected
UPWARD = {"x86_64": 0x800, "AMD64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}


def wrong(*_: Any, **__: Any) -> Any:
    return torch.zeros(())


def _libm() -> Any:
    return ctypes.CDLL(ctypes.util.find_library("m") or None)


def _enter(context: Any) -> None:
    _kept.append(context)
    context.__enter__()


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        floats = isinstance(out, torch.Tensor) and out.is_floating_point()
        return out * 2 if floats else out


class DoublingKernels(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        floats = isinstance(out, torch.Tensor) and out.is_floating_point()
        return out * 2 if floats else out


def register_kernel() -> None:
    library = torch.library.Library("aten", "IMPL")
    library.impl("exp", lambda x: torch.zeros_like(x), "CPU")
    _kept.append(library)


def _raising_signal(*_: Any) -> None:
    raise RuntimeError("a signal")


LEAKS: dict[str, Callable[[], Any]] = {
    # torch: arithmetic and modes of the thread
    "FlushDenormal": lambda: torch.set_flush_denormal(True),
    "AutocastLeftOn": lambda: _enter(torch.autocast("cpu", dtype=torch.bfloat16)),
    "AutocastEnabled": lambda: torch.set_autocast_enabled("cpu", True),
    "AutocastDtype": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "NoGrad": lambda: torch.set_grad_enabled(False),
    "InferenceMode": lambda: _enter(torch.inference_mode()),
    "DefaultDtype": lambda: torch.set_default_dtype(torch.float64),
    "DefaultDevice": lambda: torch.set_default_device("meta"),
    "DeviceContext": lambda: _enter(torch.device("meta")),
    "FunctionMode": lambda: _enter(Doubling()),
    "DispatchMode": lambda: _enter(DoublingKernels()),
    "ForwardLevel": lambda: forward_ad.enter_dual_level(),
    "ForwardDisabled": lambda: _C._set_fwd_grad_enabled(False),
    "VmapLevel": lambda: _C._functorch._vmap_increment_nesting(2, "error"),
    "GradLevel": lambda: _C._functorch._grad_increment_nesting(),
    "Multithreading": lambda: _C._set_multithreading_enabled(False),
    "ExcludedKey": lambda: _C._dispatch_tls_set_dispatch_key_excluded(
        _C.DispatchKey.AutogradCPU, True
    ),
    # torch: switches
    "Threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "Deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "MatmulPrecision": lambda: torch.set_float32_matmul_precision("medium"),
    "Mkldnn": lambda: _C._set_mkldnn_enabled(False),
    "Cudnn": lambda: setattr(torch.backends.cudnn, "enabled", False),
    "CudnnBenchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "FlashAttention": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "MathAttention": lambda: torch.backends.cuda.enable_math_sdp(False),
    "FastPath": lambda: torch.backends.mha.set_fastpath_enabled(False),
    "Einsum": lambda: setattr(torch.backends.opt_einsum, "enabled", False),
    "WarnAlways": lambda: torch.set_warn_always(True),
    "Seed": lambda: torch.manual_seed(12345),
    "PrintOptions": lambda: torch.set_printoptions(precision=1),
    "Anomaly": lambda: torch.set_anomaly_enabled(True),
    "ModuleHook": lambda: torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: out * 2
    ),
    # torch: replaced functions and kernels
    "PatchedMatmul": lambda: setattr(_torch, "matmul", wrong),
    "PatchedExp": lambda: setattr(_torch, "exp", wrong),
    "PatchedAbs": lambda: setattr(torch.Tensor, "abs", wrong),
    "PatchedDouble": lambda: setattr(torch.Tensor, "double", wrong),
    "PatchedSoftmax": lambda: setattr(_functional, "softmax", wrong),
    "PatchedNorm": lambda: setattr(torch.linalg, "norm", wrong),
    "PatchedOps": lambda: setattr(torch.ops.aten, "add", wrong),
    "RemovedFunction": lambda: delattr(_torch, "isnan"),
    "ReplacedDtype": lambda: setattr(_torch, "float64", torch.float32),
    "ReplacedModule": lambda: sys.modules.__setitem__("torch", math),
    "Kernel": register_kernel,
    # NumPy
    "NumpyErrors": lambda: np.seterr(all="raise"),
    "NumpyPrinting": lambda: np.set_printoptions(precision=1),
    "NumpyBuffer": lambda: np.setbufsize(16384),
    "NumpyErrstate": lambda: _enter(np.errstate(over="raise")),
    "PatchedNumpyAdd": lambda: setattr(np, "add", wrong),
    "PatchedNumpyAbs": lambda: setattr(np, "abs", wrong),
    "PatchedNumpySvd": lambda: setattr(np.linalg, "svd", wrong),
    # Python and the process
    "RecursionLimit": lambda: sys.setrecursionlimit(120),
    "Stdout": lambda: setattr(sys, "stdout", None),
    "Stderr": lambda: setattr(sys, "stderr", None),
    "Excepthook": lambda: setattr(sys, "excepthook", wrong),
    "Chdir": lambda: os.chdir(os.sep),
    "Environment": lambda: os.environ.__setitem__("OMP_NUM_THREADS", "77"),
    "EnvironmentLost": lambda: os.environ.__delitem__("PATH"),
    "Locale": lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"),
    "Decimal": lambda: setattr(decimal.getcontext(), "prec", 3),
    "GcDisabled": gc.disable,
    "GcThreshold": lambda: gc.set_threshold(7, 7, 7),
    "SwitchInterval": lambda: sys.setswitchinterval(1.0),
    "Digits": lambda: sys.set_int_max_str_digits(700),
    "Trace": lambda: sys.settrace(lambda *_: None),
    "Profile": lambda: sys.setprofile(lambda *_: None),
    "WarningsAsErrors": lambda: warnings.simplefilter("error"),
    "ShowWarning": lambda: setattr(warnings, "showwarning", wrong),
    "Logging": lambda: logging.disable(logging.CRITICAL),
    "Signal": lambda: signal.signal(signal.SIGINT, lambda *_: None),
    "PatchedMath": lambda: setattr(math, "prod", wrong),
    "PatchedLen": lambda: setattr(builtins, "abs", wrong),
    "PatchedPi": lambda: setattr(math, "pi", 3.0),
}
if hasattr(_C._autograd, "_top_saved_tensors_default_hooks"):
    LEAKS["SavedTensors"] = lambda: _enter(
        torch.autograd.graph.saved_tensors_hooks(lambda x: x * 2, lambda x: x)
    )
if os.name == "posix":
    LEAKS["Timer"] = lambda: signal.setitimer(signal.ITIMER_REAL, 3600.0)
    LEAKS["Rounding"] = lambda: _libm().fesetround(UPWARD.get(os.uname().machine, 0x800))
if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
    LEAKS["Affinity"] = lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])


class Leaky(consistency.Backend):
    """Leaks after every call, and answers rightly."""

    leak = staticmethod(lambda: None)

    @contextlib.contextmanager
    def switches(self) -> Iterator[None]:
        yield
        type(self).leak()


globals().update(
    {
        name: type(name, (Leaky,), {"name": name, "leak": staticmethod(leak)})
        for name, leak in LEAKS.items()
    }
)


class All(consistency.Backend):
    """Every leak in turn, one per call."""

    name = "all"

    def __init__(self) -> None:
        self.leaks = itertools.cycle(LEAKS.values())

    @contextlib.contextmanager
    def switches(self) -> Iterator[None]:
        yield
        next(self.leaks)()


class AllWithin(All):
    """Every leak in turn, within the call, so that its gradients are computed with it."""

    name = "all within"

    def switches(self) -> Any:
        return contextlib.nullcontext()

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        out = super().call(operator, args, kwargs)
        next(self.leaks)()
        return out


class InItsConstructor(consistency.Backend):
    name = "constructor"

    def __init__(self) -> None:
        torch.set_default_dtype(torch.float64)


class InItsQueries(consistency.Backend):
    name = "queries"

    def why_unavailable(self) -> str | None:
        torch.set_flush_denormal(True)
        return None

    def unsupported(self, operator: consistency.Operator, dtype: str, direction: str) -> str | None:
        np.seterr(all="raise")
        return None

    def environment(self) -> dict[str, str]:
        os.chdir(os.sep)
        return {"device": "cpu"}

    def variants(self) -> Mapping[str, consistency.Backend]:
        torch.set_num_threads(torch.get_num_threads() + 1)
        return {}


class InItsRun(consistency.Backend):
    """Overrides all of ``run``."""

    name = "whole run"

    def run(self, *args: Any, **kwargs: Any) -> Any:
        outcome = super().run(*args, **kwargs)
        torch.set_default_dtype(torch.float64)
        setattr(_torch, "exp", wrong)  # noqa: B010 - a function for a variable
        return outcome


class Restores(consistency.Backend):
    """A healthy one: changes state for its computation and sets it back."""

    name = "restores"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
        exp: Any = torch.exp
        try:
            torch.set_num_threads(1)
            torch.set_default_dtype(torch.float64)
            _torch.exp = wrong
            with (
                np.errstate(all="ignore"),
                torch.no_grad(),
                torch.autocast("cpu", enabled=False),
                warnings.catch_warnings(),
                decimal.localcontext(),
            ):
                warnings.simplefilter("ignore")
                torch.arange(3)
        finally:
            _torch.exp = exp
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
        return super().call(operator, args, kwargs)


class Uses(consistency.Backend):
    """A healthy one: keeps threads and files, draws random numbers, loads modules late, defines an
    operator of its own."""

    name = "uses"
    pool: ThreadPoolExecutor | None = None

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(2)
            _kept.append(open(os.devnull, encoding="utf-8"))  # noqa: PTH123, SIM115
            library = torch.library.Library("leaky_test", "FRAGMENT")
            with contextlib.suppress(RuntimeError):  # another test has defined it
                library.define("twice(Tensor x) -> Tensor")
                library.impl("twice", lambda x: x * 2, "CPU")
            _kept.append(library)
            os.environ["LEAKY_CACHE_DIR"] = "x"  # as inductor sets its own
            warnings.filterwarnings("ignore", message="something of its own")
            threading.Thread(target=lambda: None).start()
        torch.rand(3), np.random.rand(3), random.random()
        return self.pool.submit(super().call, operator, args, kwargs).result()


class Compiles(consistency.Backend):
    """A healthy one: torch.compile in the run's process, without a compiler."""

    name = "compiles"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        torch._dynamo.reset()
        function: Any = torch.compile(lambda *a: operator.callable(*a, **kwargs), backend="eager")  # type: ignore[misc]
        return function(*args)


class Switched(consistency.TorchBackend):
    """A healthy one: its switches set state and restore it."""

    name = "switched"

    @contextlib.contextmanager
    def switches(self) -> Iterator[None]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(False)
