"""torch's modes, most of them of one thread: autocast, gradients, stacks of modes, hooks.

Every function is bound when this module is loaded, before any user's code can replace it. What a
version of torch does not have is left out.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
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
        _autocast_depth(),
    )


def _autocast_depth() -> int:
    """How many autocast blocks are open: torch keeps cast weights until the outermost ends."""
    _deeper()
    return int(_less_deep())


_deeper: Any = torch.autocast_increment_nesting
_less_deep: Any = torch.autocast_decrement_nesting
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
    while _autocast_depth() > before[4]:
        _less_deep()
    while _autocast_depth() < before[4]:
        _deeper()
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


_BACKEND_BITS = 0xFFFF  # the lowest bits of a set of keys say for which backends the others hold


def _keys() -> tuple[int, int]:
    included, excluded = _included().raw_repr(), _excluded().raw_repr()
    if (included | excluded) & _BACKEND_BITS:  # seldom
        return _without_idle_bits(included), _without_idle_bits(excluded)
    return included, excluded


@functools.lru_cache(256)
def _without_idle_bits(raw: int) -> int:
    """The set without the bits of backends for which no key holds: setting a key of one backend and
    taking it back, as is done below, leaves its bit, which the next guard of torch takes away."""
    shorter = raw & ~_BACKEND_BITS
    whole, left = (_C.DispatchKeySet.from_raw_repr(bits) for bits in (raw, shorter))
    same = all(whole.has(key) == left.has(key) for key in _C.DispatchKey.__members__.values())
    return shorter if same else raw


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


def _anomaly() -> tuple[bool, bool]:
    return (_is_anomaly(), _is_nan_anomaly())


_is_anomaly, _is_nan_anomaly = torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled


_device_module: Any = torch.utils._device
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
    *([State("torch.utils._device.CURRENT_DEVICE", lambda: _device_module.CURRENT_DEVICE,
             lambda before: setattr(_device_module, "CURRENT_DEVICE", before), implied=True)]
      if hasattr(_device_module, "CURRENT_DEVICE") else []),
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
    *([State("torch.overrides", _is_function_enabled, _write_function_enabled)]
      if not hasattr(_C, "_get_torch_function_state") else []),
)  # fmt: skip
# Everything above sets some of these keys, so they come last.
KEYS = (
    State("the dispatcher's keys of this thread", _keys, _write_keys, _told_keys, implied=True)
    if hasattr(_C.DispatchKeySet, "raw_repr")
    else State(
        "the dispatcher's keys of this thread", _single_keys, _write_single_keys, implied=True
    ),
)
