"""The training task: a model with the inputs of a step, and, for training, its loss and its
optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..backends._messages import told
from ..errors import UsageError
from .forward_arguments import check_batch, check_inputs

_EXPECTED = "a Subject, (model, inputs) or (model, inputs, loss)"


@dataclass(frozen=True)
class Subject:
    """What a factory returns.

    ``model`` is a module (or any callable with ``parameters()``) in float32 on the CPU, ``inputs``
    are the positional inputs of one step. ``batches``, if given, are those of the training steps,
    used cyclically: tuples of inputs, or pairs of a tuple of inputs and a tuple of targets.
    ``loss(outputs, *targets)`` gives a scalar; None means the sum over all floating-point outputs
    of their mean square. ``optimizer(parameters)`` makes the optimizer; None means SGD with a
    learning rate of 0.01. ``steps`` is the number of optimizer steps, 0 for one forward and
    backward pass. ``after(model)`` is called at the end, such as ``lambda model: model.eval()``;
    then the first inputs go forward once more.
    """

    model: Any
    inputs: tuple[Any, ...] = ()
    batches: Sequence[tuple[Any, ...]] | None = None
    loss: Callable[..., torch.Tensor] | None = None
    targets: tuple[Any, ...] = ()
    optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer] | None = None
    steps: int = 0
    after: Callable[[Any], Any] | None = None
    name: str = ""

    @property
    def passes(self) -> int:
        """The number of forward and backward passes."""
        return max(self.steps, 1)

    def at_most(self, steps: int) -> Subject:
        """The same with fewer steps."""
        return replace(self, steps=min(self.steps, steps))

    def settled(self) -> Subject:
        """The same with batches as a list if they can only be iterated (a DataLoader), so that
        every run gets the same ones."""
        if self.batches is None or hasattr(self.batches, "__getitem__"):
            return self
        with users_own("going through the batches"):
            return replace(self, batches=list(self.batches))

    def batch(self, step: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Inputs and targets of step number ``step``, from 0."""
        if not self.batches:
            return tuple(self.inputs), tuple(self.targets)
        batch = self.batches[step % len(self.batches)]
        if isinstance(batch, torch.Tensor):
            return (batch,), tuple(self.targets)
        if len(batch) == 2 and all(isinstance(part, tuple) for part in batch):
            return batch[0], batch[1]
        return tuple(batch), tuple(self.targets)


def subject_of(found: Any, what: str) -> Subject:
    """A Subject from the return value of a factory. Raises UsageError; ``what`` begins its
    message."""
    if isinstance(found, Subject):
        return _validated(found, what)
    if isinstance(found, (tuple, list)) and len(found) in (2, 3) and callable(found[0]):
        inputs = found[1]
        inputs = (
            (inputs,)
            if isinstance(inputs, torch.Tensor) or not isinstance(inputs, (tuple, list))
            else tuple(inputs)
        )
        return _validated(
            Subject(found[0], inputs, loss=found[2] if len(found) == 3 else None), what
        )
    raise UsageError(f"{what} is {_with_article(found)}; expected {_EXPECTED}")


def _validated(subject: Subject, what: str) -> Subject:
    if not callable(subject.model):
        raise UsageError(
            f"{what}: its model is {_with_article(subject.model)}, which cannot be called"
        )
    for name, value in (
        ("loss", subject.loss),
        ("optimizer", subject.optimizer),
        ("after", subject.after),
    ):
        if value is not None and not callable(value):
            raise UsageError(
                f"{what}: its {name} is {_with_article(value)}; give a function, or None"
            )
    subject = _with_tuples(subject, what)
    _check_arguments(subject, what)
    if type(subject.steps) is not int or subject.steps < 0:
        raise UsageError(
            f"{what}: steps = {subject.steps!r:.40}; give a whole number, 0 for one pass forward "
            "and backward"
        )
    tensors = [*parameters_of(subject.model), *_buffers(subject.model)]
    other_devices = {str(t.device) for t in tensors if t.device.type != "cpu"}
    if other_devices:
        raise UsageError(
            f"{what}: the model lies on {sorted(other_devices)[0]}; return it on the CPU, backends "
            f"copy it to their device"
        )
    if not subject.name:
        return replace(subject, name=type(subject.model).__name__)
    return subject


def _with_tuples(subject: Subject, what: str) -> Subject:
    """The same with single tensors wrapped in tuples; rejects invalid batches."""
    inputs, targets = (
        (value,) if isinstance(value, torch.Tensor) else value
        for value in (subject.inputs, subject.targets)
    )
    subject = replace(subject, inputs=inputs, targets=targets)
    batches = subject.batches
    if batches is None:
        return subject
    remedy = "give a list of tuples of inputs, or a DataLoader"
    if not (hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")):
        raise UsageError(f"{what}: its batches are {_with_article(batches)}; {remedy}")
    if isinstance(batches, Iterator):
        raise UsageError(
            f"{what}: its batches can be gone through only once, and every backend needs them; "
            f"{remedy}"
        )
    if hasattr(batches, "__len__") and not len(batches):
        raise UsageError(f"{what}: its batches are empty; {remedy}")
    return subject


def _check_arguments(subject: Subject, what: str) -> None:
    """Raises UsageError where the model does not take the inputs of its first step. Batches that
    can only be gone through (a DataLoader) are not begun here."""
    if not subject.batches:
        if subject.batches is None and isinstance(subject.inputs, Sequence):
            check_inputs(subject.model, subject.inputs, what)
    elif isinstance(subject.batches, (list, tuple)):
        first = subject.batches[0]
        if isinstance(first, (torch.Tensor, list, tuple)):
            inputs, targets = subject.batch(0)
            check_batch(subject.model, inputs, bool(targets), what)


@contextlib.contextmanager
def users_own(doing: str) -> Iterator[None]:
    """Exceptions of the user's code become a UsageError of one line; ``doing`` describes the
    operation."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{doing} raises {told(error)}") from error


def one_number(loss: Any) -> torch.Tensor:
    """The return value of a loss function, if a gradient can start there. Raises UsageError."""
    if not isinstance(loss, torch.Tensor):
        raise UsageError(
            f"the loss returns {_with_article(loss)}; let it return one tensor, such as the sum of "
            f"its terms"
        )
    if loss.numel() != 1:
        raise UsageError(
            f"the loss returns a tensor of shape {list(loss.shape)}; let it return one number, "
            f"such as its mean()"
        )
    return loss


def parameters_of(model: Any) -> list[torch.nn.Parameter]:
    """The model's parameters, in its order; none for a function."""
    method = getattr(model, "parameters", None)
    return list(method()) if callable(method) else []


def _buffers(model: Any) -> list[torch.Tensor]:
    method = getattr(model, "buffers", None)
    return list(method()) if callable(method) else []


def _with_article(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
