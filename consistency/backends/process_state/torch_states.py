"""torch's global state: modes of the thread, numeric switches, hooks, printing.

Every function is bound when this module is loaded, before any user's code can replace it. What a
version of torch does not have is left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.backends.opt_einsum
import torch.utils._device
from torch.autograd import forward_ad

from .state import State, from_to, shown

_C: Any = torch._C
_functorch: Any = _C._functorch
_autograd: Any = _C._autograd
_kept: list[Any] = []  # guards of inference mode, which end when they are collected

# Inference mode.
_is_inference = torch.is_inference_mode_enabled


def _write_inference(before: bool) -> None:
    guard = _C._InferenceMode(before)
    guard.__enter__()
    _kept.append(guard)


# Autocast.
_AUTOCAST = "cpu"


def _autocast() -> tuple[Any, ...]:
    return (
        _is_autocast(_AUTOCAST),
        _autocast_dtype(_AUTOCAST),
        _autocast_cache(),
        _any_autocast(),
    )


_is_autocast: Any = torch.is_autocast_enabled
_autocast_dtype: Any = torch.get_autocast_dtype
_autocast_cache = torch.is_autocast_cache_enabled
_any_autocast: Any = _C._is_any_autocast_enabled
_DEVICES = ("cuda", "xpu", "mps")


def _write_autocast(before: tuple[Any, ...]) -> None:
    torch.set_autocast_enabled(_AUTOCAST, before[0])
    torch.set_autocast_dtype(_AUTOCAST, before[1])
    torch.set_autocast_cache_enabled(before[2])
    if not before[3]:
        for device in _DEVICES:
            with contextlib.suppress(RuntimeError):  # a version without autocast there
                torch.set_autocast_enabled(device, False)
    torch.clear_autocast_cache()


# Modes.
_function_depth, _function_at = _C._len_torch_function_stack, _C._get_function_stack_at
_dispatch_depth, _dispatch_at = _C._len_torch_dispatch_stack, _C._get_dispatch_stack_at


def _function_modes() -> list[Any]:
    depth = _function_depth()
    return [_function_at(i) for i in range(depth)] if depth else []


def _write_function_modes(before: list[Any]) -> None:
    while _function_depth():
        _C._pop_torch_function_stack()
    for mode in before:
        _C._push_on_torch_function_stack(mode)


def _dispatch_modes() -> list[Any]:
    depth = _dispatch_depth()
    return [_dispatch_at(i) for i in range(depth)] if depth else []


def _write_dispatch_modes(before: list[Any]) -> None:
    from torch.utils._python_dispatch import _push_mode

    while _dispatch_depth():
        top = _dispatch_at(_dispatch_depth() - 1)
        _C._pop_torch_dispatch_stack(getattr(top, "_mode_key", None))
    for mode in before:
        _push_mode(mode)


_devices: Any = torch._GLOBAL_DEVICE_CONTEXT


def _default_device() -> Any:
    return getattr(_devices, "device_context", None)


def _told_device(before: Any, after: Any) -> str:
    return from_to(*(str(getattr(context, "device", "cpu")) for context in (before, after)))


def _told_modes(before: list[Any], after: list[Any]) -> str:
    names = [[type(mode).__name__ for mode in modes] for modes in (before, after)]
    return f"{shown(names[0])} → {shown(names[1])}"


# Functional transformations and forward-mode differentiation.
_level: Any = _functorch.maybe_current_level
_forward_ad: dict[str, Any] = vars(forward_ad)
_exit_level: Any = forward_ad.exit_dual_level


def _functorch_depth() -> int:
    return 0 if _level() is None else int(_functorch.get_dynamic_layer_stack_depth())


def _write_functorch(before: int) -> None:
    transform: Any = _functorch.TransformType
    leave = {
        transform.Grad: _functorch._grad_decrement_nesting,
        transform.Vmap: _functorch._vmap_decrement_nesting,
        transform.Jvp: _functorch._jvp_decrement_nesting,
        transform.Functionalize: _functorch._func_decrement_nesting,
    }
    while _functorch_depth() > before:
        leave[_functorch.peek_interpreter_stack().key()]()


def _forward_level() -> int:
    return int(_forward_ad["_current_level"])


def _write_forward_level(before: int) -> None:
    while _forward_level() > before:
        _exit_level()
    _forward_ad["_current_level"] = before


# Keys of the dispatcher that this thread includes and excludes.
_included, _excluded = _C._dispatch_tls_local_include_set, _C._dispatch_tls_local_exclude_set


def _keys() -> tuple[int, int]:
    return (_included().raw_repr(), _excluded().raw_repr())


def _write_keys(before: tuple[int, int]) -> None:
    setters = (
        _C._dispatch_tls_set_dispatch_key_included,
        _C._dispatch_tls_set_dispatch_key_excluded,
    )
    for raw, now, write in zip(before, (_included(), _excluded()), setters, strict=True):
        old = _C.DispatchKeySet.from_raw_repr(raw)
        for key in _C.DispatchKey.__members__.values():
            if old.has(key) != now.has(key):
                write(key, old.has(key))


# Older versions of torch cannot give the whole sets as numbers, but say what holds for one key.
_SINGLE_KEYS = tuple(
    _C.DispatchKey.__members__[name]
    for name in ("CPU", "AutogradCPU", "AutogradOther", "ADInplaceOrView", "AutocastCPU",
                 "BackendSelect", "Python", "Functionalize")
    if name in _C.DispatchKey.__members__
)  # fmt: skip
_is_included: Any = _C._dispatch_tls_is_dispatch_key_included
_is_excluded: Any = _C._dispatch_tls_is_dispatch_key_excluded


def _single_keys() -> list[tuple[bool, bool]]:
    return [(_is_included(key), _is_excluded(key)) for key in _SINGLE_KEYS]


def _write_single_keys(before: list[tuple[bool, bool]]) -> None:
    for key, (included, excluded) in zip(_SINGLE_KEYS, before, strict=True):
        if _is_included(key) != included:
            _C._dispatch_tls_set_dispatch_key_included(key, included)
        if _is_excluded(key) != excluded:
            _C._dispatch_tls_set_dispatch_key_excluded(key, excluded)


def _told_keys(before: tuple[int, int], after: tuple[int, int]) -> str:
    return from_to(*("+".join(f"{raw:#x}" for raw in keys) for keys in (before, after)))


# Hooks of all modules, and hooks of all tensors that autograd saves.
_hooked: Any = torch.nn.modules.module
_HOOKS: tuple[dict[int, Any], ...] = tuple(
    value for name, value in vars(_hooked).items()
    if name.startswith("_global_") and isinstance(value, dict)
)  # fmt: skip


def _module_hooks() -> tuple[int, ...]:
    return tuple(map(len, _HOOKS))


def _write_module_hooks(before: tuple[int, ...]) -> None:
    for hooks, count in zip(_HOOKS, before, strict=True):
        for key in list(hooks)[count:]:  # later hooks come last
            del hooks[key]


def _told_hooks(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    return from_to(sum(before), sum(after))


# Older versions of torch cannot be asked for these hooks.
_top_saved: Any = getattr(_autograd, "_top_saved_tensors_default_hooks", None)


def _saved_hooks() -> Any:
    return _top_saved(True)


def _write_saved_hooks(before: Any) -> None:
    for _ in range(_MOST_HOOKS):
        now = _saved_hooks()
        if now is None or now == before:
            return
        _autograd._pop_saved_tensors_default_hooks()


_MOST_HOOKS = 1000


def _write_saved_hooks_allowed(before: bool) -> None:
    if before:
        _autograd._saved_tensors_hooks_enable()
    else:
        _autograd._saved_tensors_hooks_disable("as it was")


# Switches.
def _anomaly() -> tuple[bool, bool]:
    return (_is_anomaly(), _is_nan_anomaly())


_is_anomaly, _is_nan_anomaly = torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled


def _deterministic() -> tuple[bool, bool]:
    return (_is_deterministic(), _warns_only())


_is_deterministic = torch.are_deterministic_algorithms_enabled
_warns_only = torch.is_deterministic_algorithms_warn_only_enabled


def _write_deterministic(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _writes(setter: str) -> Callable[[Any], Any]:
    return getattr(_C, setter)  # type: ignore[no-any-return]


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


def _attribute(module: Any, attribute: str, name: str, implied: bool = False) -> State:
    return State(
        name,
        lambda: getattr(module, attribute),
        lambda value: setattr(module, attribute, value),
        implied=implied,
    )


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


_device_module: Any = torch.utils._device
_generator = torch.default_generator
_is_function_enabled: Any = _C._is_torch_function_enabled


def _write_function_enabled(before: bool) -> None:
    guard = _C._EnableTorchFunction() if before else _C.DisableTorchFunctionSubclass()
    guard.__enter__()
    _kept.append(guard)


STATES = (
    State("torch.is_inference_mode_enabled()", _is_inference, _write_inference),
    State("torch.is_grad_enabled()", torch.is_grad_enabled, torch._C._set_grad_enabled),
    State("torch.get_default_device()", _default_device,
          lambda before: setattr(_devices, "device_context", before), _told_device),
    State("the stack of TorchFunctionModes", _function_modes, _write_function_modes, _told_modes),
    State("the stack of TorchDispatchModes", _dispatch_modes, _write_dispatch_modes, _told_modes),
    *([_attribute(_device_module, "CURRENT_DEVICE", "torch.utils._device.CURRENT_DEVICE", True)]
      if hasattr(_device_module, "CURRENT_DEVICE") else []),
    State("torch.get_default_dtype()", torch.get_default_dtype, torch.set_default_dtype),
    State("autocast", _autocast, _write_autocast),
    State("the levels of torch.func", _functorch_depth, _write_functorch),
    State("the level of forward-mode differentiation", _forward_level, _write_forward_level),
    State("forward-mode differentiation", _C._is_fwd_grad_enabled, _C._set_fwd_grad_enabled),
    State("torch.autograd.set_multithreading_enabled", _C._is_multithreading_enabled,
          _C._set_multithreading_enabled),
    State("torch.autograd.detect_anomaly", _anomaly,
          lambda before: torch.set_anomaly_enabled(*before)),
    *([State("torch.autograd.graph.saved_tensors_hooks", _saved_hooks, _write_saved_hooks)]
      if _top_saved is not None else []),
    State("torch.autograd.graph.disable_saved_tensors_hooks",
          _autograd._saved_tensors_hooks_is_enabled, _write_saved_hooks_allowed),
    State("hooks of all modules", _module_hooks, _write_module_hooks, _told_hooks),
    State("torch.get_num_threads()", torch.get_num_threads, torch.set_num_threads),
    State("torch.use_deterministic_algorithms", _deterministic, _write_deterministic),
    *_precisions(),
    *_settings(),
    *([State("torch.backends.mha.get_fastpath_enabled()", torch.backends.mha.get_fastpath_enabled,
             torch.backends.mha.set_fastpath_enabled)] if hasattr(torch.backends, "mha") else []),
    State("torch.backends.opt_einsum", _einsum, _write_einsum),
    State("torch.set_printoptions", _print_options, _write_print_options),
    State("torch.initial_seed()", _generator.initial_seed, lambda before: None),
    *([State("torch.overrides", _is_function_enabled, _write_function_enabled)]
      if not hasattr(_C, "_get_torch_function_state") else []),
    State("the dispatcher's keys of this thread", _keys, _write_keys, _told_keys, implied=True)
    if hasattr(_C.DispatchKeySet, "raw_repr") else
    State("the dispatcher's keys of this thread", _single_keys, _write_single_keys, implied=True),
)  # fmt: skip
