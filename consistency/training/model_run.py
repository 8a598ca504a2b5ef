"""A model run: a copy of the model on one device takes its steps under a dispatch mode; what it
computes is passed to a tap."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..backends._messages import told
from ..core.moving import moved
from ..core.trees import map_tensors, tensors_in
from ..errors import UsageError
from .reference_samples import Key, Tap
from .trace.modules import Modules
from .training_task import Subject, one_number, parameters_of

SEED = 0
LEARNING_RATE = 0.01


class ModelRun:
    """A copy of a subject on a device in a dtype (None: unchanged). ``tap`` receives what it
    computes, ``mode`` sees each operator.

    ``mode.paused`` is set during operations that do not belong to the model.
    """

    def __init__(
        self,
        subject: Subject,
        tap: Tap,
        mode: Any,
        *,
        dtype: torch.dtype | None = None,
        device: str = "cpu",
    ) -> None:
        self.subject, self.tap, self.mode, self._dtype, self._device = (
            subject,
            tap,
            mode,
            dtype,
            device,
        )
        self.model = _move_to(_copy_of(subject.model, "model"), dtype, device)
        self._loss = (
            _move_to(_copy_of(subject.loss, "loss"), dtype, device)
            if isinstance(subject.loss, torch.nn.Module)
            else subject.loss
        )
        self._on_inputs_moved: Callable[[torch.Tensor], None] | None = None
        self.optimizer = (
            _make_optimizer(subject, self.model)
            if subject.steps and parameters_of(self.model)
            else None
        )
        self.step = 0
        self._names = _named_members(self.model, "named_modules")
        modules = [
            (name, module)
            for name, module in self._names.items()
            if isinstance(module, torch.nn.Module)
        ]
        self._handles = [module.register_forward_hook(self._hook(name)) for name, module in modules]

    def close(self) -> None:
        """Release the copy immediately: reference cycles through hooks would wait for the
        garbage collector."""
        for handle in self._handles:
            handle.remove()
        self.model = self.optimizer = None
        self._names = {}

    def run(self, inputs_moved: Callable[[torch.Tensor], None] | None = None) -> Iterator[int]:
        """Run the steps; yields the number of each (from 1) when it is done. ``inputs_moved``
        may change inputs in place."""
        self._on_inputs_moved = inputs_moved
        torch.manual_seed(SEED)
        for step in range(1, self.subject.passes + 1):
            self.step = step
            self._step(step)
            yield step
        if self.subject.after is not None:
            self.step += 1
            self.subject.after(self.model)
            inputs, _ = self._batch_on_device(0)
            with torch.no_grad(), self.mode:
                outputs = self.model(*inputs)
            self._tap_tensors("output", "(end)", outputs)
            yield self.step

    def _step(self, step: int) -> None:
        inputs, targets = self._batch_on_device(step - 1)

        def evaluate() -> Any:
            for parameter in parameters_of(self.model):
                parameter.grad = None
            with torch.enable_grad():
                outputs = self.model(*inputs)
                loss = (
                    one_number(self._loss(outputs, *targets))
                    if self._loss is not None
                    else _mean_squares(outputs)
                )
                if loss is not None and loss.requires_grad:
                    loss.backward()  # type: ignore[no-untyped-call]
            if loss is not None:
                self._tap_tensors("loss", "loss", loss)
            self._after_backward()
            return loss

        with self.mode:
            if isinstance(self.optimizer, torch.optim.LBFGS):
                # evaluates the loss repeatedly; only the first is compared
                self.optimizer.step(evaluate)  # type: ignore[no-untyped-call]
            else:
                evaluate()
                if self.optimizer is not None:
                    self.optimizer.step()
        self._after_step()

    def _batch_on_device(self, step: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        inputs, targets = self.subject.batch(step)

        def to_device(tensor: torch.Tensor) -> torch.Tensor:
            dtype = self._dtype if tensor.is_floating_point() else None
            own = moved(tensor.detach(), self._device, dtype, copy=True)
            if self._on_inputs_moved is not None:
                self._on_inputs_moved(own)
            return own.requires_grad_(tensor.requires_grad)

        return map_tensors(to_device, inputs), map_tensors(to_device, targets)

    @contextlib.contextmanager
    def _pause_mode(self) -> Iterator[None]:
        previous, self.mode.paused = self.mode.paused, True
        try:
            with torch.no_grad():
                yield
        finally:
            self.mode.paused = previous

    def _tap_tensors(self, kind: str, name: str, value: Any) -> None:
        with self._pause_mode():
            tensors = list(tensors_in(value))
            for number, tensor in enumerate(tensors):
                self.tap(
                    Key(self.step, kind, name if len(tensors) == 1 else f"{name} [{number}]"),
                    tensor,
                )

    def _hook(self, name: str) -> Callable[..., None]:
        calls = [0, 0]  # step, calls in this step

        def hook(module: Any, inputs: Any, output: Any) -> None:
            if self.mode.paused:
                return
            calls[:] = [self.step, calls[1] + 1 if calls[0] == self.step else 1]
            title = name if calls[1] == 1 else f"{name} (time {calls[1]})"
            self._tap_tensors("output", title, output)
            for tensor in tensors_in(output):
                if tensor.requires_grad and tensor.is_floating_point():
                    tensor.register_hook(self._gradient_hook(title))  # type: ignore[no-untyped-call]

        return hook

    def _gradient_hook(self, title: str) -> Callable[[torch.Tensor], None]:
        def hook(gradient: torch.Tensor) -> None:
            self._tap_tensors("gradient", title, gradient)

        return hook

    def _after_backward(self) -> None:
        for name, parameter in _named_members(self.model, "named_parameters").items():
            if parameter.grad is not None:
                self._tap_tensors("parameter gradient", name, parameter.grad)

    def _after_step(self) -> None:
        parameters = _named_members(self.model, "named_parameters")
        for name, buffer in _named_members(self.model, "named_buffers").items():
            self._tap_tensors("buffer", name, buffer)
        if self.optimizer is None:
            return
        for name, parameter in parameters.items():
            self._tap_tensors("parameter", name, parameter)
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and value.ndim == parameter.ndim:
                    self._tap_tensors("optimizer state", f"{name} {key}", value)


@contextlib.contextmanager
def quietly() -> Iterator[Modules]:
    """Context of a model run: its own random state, no warnings of torch about the model, and
    the module of every call."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), Modules() as modules:
        warnings.simplefilter("ignore")
        yield modules


def _named_members(model: Any, what: str) -> dict[str, Any]:
    own = getattr(model, what, None)
    if callable(own):
        return dict(own())
    return (
        {str(i): p for i, p in enumerate(parameters_of(model))}
        if what == "named_parameters"
        else {}
    )


def _copy_of(value: Any, what: str) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        text = f"the {what} cannot be copied ({told(error)})"
        raise UsageError(
            f"{text}; every backend begins with a copy of it: leave out what copy.deepcopy refuses"
        ) from error


def _move_to(model: Any, dtype: torch.dtype | None, device: str) -> Any:
    if isinstance(model, torch.nn.Module):
        model = _convert(model, dtype) if dtype is not None else model
        return model.to(device)
    for parameter in parameters_of(model):
        cast = dtype if parameter.is_floating_point() else None
        parameter.data = moved(parameter.data, device, cast)
    return model


def _convert(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    wider = {torch.complex64: torch.complex128}
    model._apply(
        lambda t: t.to(dtype) if t.is_floating_point() else t.to(wider.get(t.dtype, t.dtype))
    )  # type: ignore[no-untyped-call]
    return model


def _make_optimizer(subject: Subject, model: Any) -> torch.optim.Optimizer:
    parameters = parameters_of(model)
    if subject.optimizer is None:
        return torch.optim.SGD(parameters, lr=LEARNING_RATE)
    return subject.optimizer(parameters)


def _mean_squares(outputs: Any) -> torch.Tensor | None:
    tensors = [t for t in tensors_in(outputs) if t.is_floating_point()]
    return torch.stack([t.square().mean() for t in tensors]).sum() if tensors else None
