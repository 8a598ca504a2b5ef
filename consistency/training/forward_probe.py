"""One forward pass without gradients, to observe its side effects; afterwards the state is
restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..core.trees import tensors_in
from .bitwise_equality import checksums, digest

_DROPOUT = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
_NORMALIZATION = nn.modules.batchnorm._NormBase  # batch and instance norm
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True, slots=True)
class ForwardObservations:
    """Side effects of a forward pass: whether it drew from the global generator, changed
    parameters and buffers (other than running statistics in training), modified inputs, modules
    that return float64 for float32, and modules whose running statistics did not change."""

    drew: bool
    changed: tuple[str, ...]
    written: tuple[int, ...]
    widened: tuple[str, ...]
    stale: tuple[str, ...]


def forward(model: Any, inputs: Sequence[Any]) -> ForwardObservations | None:
    """Run the model once and restore its state. None if it raises: the next run reports that
    better."""
    named = modules(model)
    before, input_digests, state = (
        checksums(model),
        [digest(value) for value in inputs],
        torch.get_rng_state(),
    )
    copies = [(tensor, tensor.detach().clone()) for value in inputs for tensor in tensors_in(value)]
    copies += [
        (buffer, buffer.clone()) for _, module in named for buffer in module.buffers(recurse=False)
    ]
    plain_attributes = [
        (module, {k: v for k, v in vars(module).items() if isinstance(v, (bool, int, float, str))})
        for _, module in named
    ]
    called: set[str] = set()
    widened: list[str] = []
    hooks = [
        module.register_forward_hook(_forward_hook(name, called, widened)) for name, module in named
    ]
    try:
        with torch.no_grad():
            model(*inputs)
        after = checksums(model)
        drew = not torch.equal(torch.get_rng_state(), state)
        written = tuple(
            position
            for position, value in enumerate(inputs)
            if digest(value) != input_digests[position]
        )
    except (Exception, SystemExit):
        return None
    finally:
        for hook in hooks:
            hook.remove()
        torch.set_rng_state(state)
        with torch.no_grad():
            for tensor, copy in copies:
                tensor.copy_(copy)
        for module, values in plain_attributes:
            vars(module).update(values)
    expected = {_dotted(name, buffer) for name, _ in _tracking_layers(model) for buffer in _BUFFERS}
    # torch's own layers change buffers intentionally, e.g. for spectral norm.
    expected |= {
        _dotted(name, b)
        for name, m in named
        if type(m).__module__.startswith("torch.")
        for b, _ in m.named_buffers(recurse=False)
    }
    changed = tuple(
        name for name in before if after.get(name) != before[name] and name not in expected
    )
    stale = tuple(
        place(name, module)
        for name, module in _tracking_layers(model)
        if name in called
        and all(after[_dotted(name, b)] == before[_dotted(name, b)] for b in _BUFFERS[:2])
    )
    return ForwardObservations(drew, changed, written, tuple(widened), stale)


def _forward_hook(name: str, called: set[str], widened: list[str]) -> Callable[..., None]:
    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        called.add(name)
        kinds = {
            t.dtype
            for t in tensors_in((inputs, list(module.parameters())))
            if t.is_floating_point()
        }
        if (
            kinds
            and torch.float64 not in kinds
            and any(t.dtype == torch.float64 for t in tensors_in(output))
        ):
            widened.append(place(name, module))

    return hook


def _tracking_layers(model: Any) -> Iterator[tuple[str, nn.Module]]:
    """The layers in training mode that should update running statistics."""
    for name, module in modules(model):
        if (
            isinstance(module, _NORMALIZATION)
            and module.training
            and module.track_running_stats
            and module.running_mean is not None
        ):
            yield name, module


def dropping(model: Any) -> tuple[str, ...]:
    """The active dropout layers."""
    return tuple(
        place(name, m)
        for name, m in modules(model)
        if isinstance(m, _DROPOUT) and m.training and m.p > 0
    )


def normalizing(model: Any) -> tuple[str, ...]:
    """The layers that would behave differently in evaluation mode."""
    return tuple(place(name, module) for name, module in _tracking_layers(model))


def modules(model: Any) -> list[tuple[str, nn.Module]]:
    return list(model.named_modules()) if isinstance(model, nn.Module) else []


def place(name: str, module: nn.Module) -> str:
    """``Linear "encoder.fc1"``."""
    kind = type(module).__name__
    return f'{kind} "{name}"' if name else kind


def _dotted(name: str, attribute: str) -> str:
    return f"{name}.{attribute}" if name else attribute
