"""torch's switches of the whole process: precision, libraries, threads, printing.

Every function is bound when this module is loaded, before any user's code can replace it. What a
version of torch does not have is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.backends.opt_einsum

from .state import State, from_to

_C: Any = torch._C


def _deterministic() -> tuple[bool, bool]:
    return (_is_deterministic(), _warns_only())


_is_deterministic = torch.are_deterministic_algorithms_enabled
_warns_only = torch.is_deterministic_algorithms_warn_only_enabled


def _write_deterministic(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


# By name of the setting, how users know it. Getters and setters are torch._C._get_… and _set_….
_SETTINGS = {
    "cpu_allow_fp16_reduced_precision_reduction":
        "torch.backends.cpu's float16 reduced-precision reductions",
    "mkldnn_enabled": "torch.backends.mkldnn.enabled",
    "mkldnn_deterministic": "torch.backends.mkldnn.deterministic",
    "nnpack_enabled": "torch.backends.nnpack",
    "cudnn_enabled": "torch.backends.cudnn.enabled",
    "cudnn_benchmark": "torch.backends.cudnn.benchmark",
    "cudnn_deterministic": "torch.backends.cudnn.deterministic",
    "cublas_allow_fp16_accumulation": "torch.backends.cuda.matmul.allow_fp16_accumulation",
    "cublas_allow_fp16_reduced_precision_reduction":
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cublas_allow_bf16_reduced_precision_reduction":
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "math_sdp_allow_fp16_bf16_reduction":
        "torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()",
    "deterministic_fill_uninitialized_memory":
        "torch.utils.deterministic.fill_uninitialized_memory",
    "autograd_fallback_mode": "torch._C._get_autograd_fallback_mode()",
    "graph_executor_optimize": "torch._C._get_graph_executor_optimize()",
    "tracing_state": "torch.jit.is_tracing()",
    "torch_function_state": "torch._C._get_torch_function_state()",
    "warnAlways": "torch.is_warn_always_enabled()",
    "qengine": "torch.backends.quantized.engine",
}  # fmt: skip
# Attention's kernels: getter and setter by the name that users know.
_ATTENTION = {
    "_get_flash_sdp_enabled": ("_set_sdp_use_flash", "torch.backends.cuda.flash_sdp_enabled()"),
    "_get_mem_efficient_sdp_enabled":
        ("_set_sdp_use_mem_efficient", "torch.backends.cuda.mem_efficient_sdp_enabled()"),
    "_get_math_sdp_enabled": ("_set_sdp_use_math", "torch.backends.cuda.math_sdp_enabled()"),
    "_get_cudnn_sdp_enabled": ("_set_sdp_use_cudnn", "torch.backends.cuda.cudnn_sdp_enabled()"),
    "_get_overrideable_sdp_enabled":
        ("_set_sdp_use_overrideable", "torch.backends.cuda's overrideable attention"),
}  # fmt: skip
_PRECISIONS = (
    ("generic", "all"), ("mkldnn", "matmul"), ("mkldnn", "conv"), ("mkldnn", "rnn"),
    ("cuda", "matmul"), ("cuda", "conv"),
)  # fmt: skip


def _spread(write: Callable[..., Any], before: tuple[Any, ...]) -> None:
    write(*before)


def _settings() -> Iterator[State]:
    for key, name in _SETTINGS.items():
        get, write = (getattr(_C, f"_{verb}_{key}", None) for verb in ("get", "set"))
        if get is not None and write is not None:
            value = get()
            several = isinstance(value, tuple)
            yield State(name, get, functools.partial(_spread, write) if several else write)
    for getter, (setter, name) in _ATTENTION.items():
        if hasattr(_C, getter) and hasattr(_C, setter):
            yield State(name, getattr(_C, getter), getattr(_C, setter))


def _precision() -> str:
    try:
        return _get_precision()
    except RuntimeError:  # torch refuses to say when it was set through both of its interfaces
        return ""


_get_precision = torch.get_float32_matmul_precision


def _write_precision(before: str) -> None:
    if before:
        _C._set_float32_matmul_precision(before)


def _precisions() -> Iterator[State]:
    """The precisions of float32 by library and kind of operation, where torch has them."""
    get: Any = getattr(_C, "_get_fp32_precision_getter", None)
    write: Any = getattr(_C, "_set_fp32_precision_setter", None)
    yield State("torch.get_float32_matmul_precision()", _precision, _write_precision)
    if get is None or write is None:
        yield from (
            State(f"torch.backends.{name}.allow_tf32", getattr(_C, getter), getattr(_C, setter))
            for name, getter, setter in (
                ("cudnn", "_get_cudnn_allow_tf32", "_set_cudnn_allow_tf32"),
                ("cuda.matmul", "_get_cublas_allow_tf32", "_set_cublas_allow_tf32"),
            )
        )
        return

    def read() -> list[str]:
        return [get(library, operation) for library, operation in _PRECISIONS]

    def restore(before: list[str]) -> None:
        for (library, operation), value in zip(_PRECISIONS, before, strict=True):
            if get(library, operation) != value:
                write(library, operation, value)

    def told(before: list[str], after: list[str]) -> str:
        return "; ".join(
            f"{library} {operation}: {from_to(old, new)}"
            for (library, operation), old, new in zip(_PRECISIONS, before, after, strict=True)
            if old != new
        )

    yield State("torch.backends' fp32_precision (TF32 …)", read, restore, told)


_printing: Any = torch._tensor_str.PRINT_OPTS


def _print_options() -> tuple[Any, ...]:
    return tuple(vars(_printing).values())


def _write_print_options(before: tuple[Any, ...]) -> None:
    for name, value in zip(list(vars(_printing)), before, strict=True):
        setattr(_printing, name, value)


# What is set from outside hides the module's own values, which are never written.
_opt_einsum: dict[str, Any] = vars(torch.backends.opt_einsum)


def _einsum() -> tuple[Any, Any]:
    return (_opt_einsum.get("enabled"), _opt_einsum.get("strategy"))


def _write_einsum(before: tuple[Any, Any]) -> None:
    for name, value in zip(("enabled", "strategy"), before, strict=True):
        if value is None:
            _opt_einsum.pop(name, None)
        else:
            _opt_einsum[name] = value


STATES = (
    State("torch.get_default_dtype()", torch.get_default_dtype, torch.set_default_dtype),
    State("torch.get_num_threads()", torch.get_num_threads, torch.set_num_threads),
    State("torch.use_deterministic_algorithms", _deterministic, _write_deterministic),
    *_precisions(),
    *_settings(),
    *([State("torch.backends.mha.get_fastpath_enabled()", torch.backends.mha.get_fastpath_enabled,
             torch.backends.mha.set_fastpath_enabled)] if hasattr(torch.backends, "mha") else []),
    State("torch.backends.opt_einsum", _einsum, _write_einsum),
    State("torch.set_printoptions", _print_options, _write_print_options),
    # The state of the generator is restored after everything else.
    State("torch.initial_seed()", torch.default_generator.initial_seed, lambda before: None),
)  # fmt: skip
