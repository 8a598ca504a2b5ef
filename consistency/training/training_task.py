"""What is looked at: a model with the inputs of a step, and, where it is trained, its loss and its
optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..backends._outputs import told
from ..errors import UsageError

_EXPECTED = "a Subject, (model, inputs) or (model, inputs, loss)"


@dataclass(frozen=True)
class Subject:
    """What a factory returns.

    ``model`` is a module (or any callable with ``parameters()``) in float32 on the CPU, ``inputs``
    are the positional inputs of one step. ``batches``, where given, are those of each training
    step, used over and over: tuples of inputs, or pairs of a tuple of inputs and a tuple of
    targets. ``loss(outputs, *targets)`` gives a scalar; None stands for the mean square of each
    floating output, added up. ``optimizer(parameters)`` makes the optimizer; None stands for plain
    gradient descent with a step of 0.01. ``steps`` is how often it steps, 0 for one forward and
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
        """How often the model goes forward and backward."""
        return max(self.steps, 1)

    def at_most(self, steps: int) -> Subject:
        """The same with fewer steps."""
        return replace(self, steps=min(self.steps, steps))

    def settled(self) -> Subject:
        """The same with its batches as a list, where they can only be gone through (a DataLoader):
        everybody gets the same ones."""
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
    """A Subject from what a factory returned. Raises UsageError; ``what`` begins its line."""
    if isinstance(found, Subject):
        return _checked(found, what)
    if isinstance(found, (tuple, list)) and len(found) in (2, 3) and callable(found[0]):
        inputs = found[1]
        inputs = (
            (inputs,)
            if isinstance(inputs, torch.Tensor) or not isinstance(inputs, (tuple, list))
            else tuple(inputs)
        )
        return _checked(Subject(found[0], inputs, loss=found[2] if len(found) == 3 else None), what)
    raise UsageError(f"{what} is {_article(found)}; expected {_EXPECTED}")


def _checked(subject: Subject, what: str) -> Subject:
    if not callable(subject.model):
        raise UsageError(f"{what}: its model is {_article(subject.model)}, which cannot be called")
    for name, value in (
        ("loss", subject.loss),
        ("optimizer", subject.optimizer),
        ("after", subject.after),
    ):
        if value is not None and not callable(value):
            raise UsageError(f"{what}: its {name} is {_article(value)}; give a function, or None")
    subject = _gathered(subject, what)
    if type(subject.steps) is not int or subject.steps < 0:
        raise UsageError(
            f"{what}: steps = {subject.steps!r:.40}; give a whole number, 0 for one pass "
            f"forward "
            f"and backward"
        )
    tensors = [*parameters_of(subject.model), *_buffers(subject.model)]
    strangers = {str(t.device) for t in tensors if t.device.type != "cpu"}
    if strangers:
        raise UsageError(
            f"{what}: the model lies on {sorted(strangers)[0]}; return it on the CPU, backends "
            f"copy it to their device"
        )
    if not subject.name:
        return replace(subject, name=type(subject.model).__name__)
    return subject


def _gathered(subject: Subject, what: str) -> Subject:
    """The same with a tensor that stands where a tuple of tensors belongs in such a tuple; refuses
    batches that are none."""
    inputs, targets = (
        (given,) if isinstance(given, torch.Tensor) else given
        for given in (subject.inputs, subject.targets)
    )
    subject = replace(subject, inputs=inputs, targets=targets)
    batches = subject.batches
    if batches is None:
        return subject
    remedy = "give a list of tuples of inputs, or a DataLoader"
    if not (hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")):
        raise UsageError(f"{what}: its batches are {_article(batches)}; {remedy}")
    if isinstance(batches, Iterator):
        raise UsageError(
            f"{what}: its batches can be gone through only once, and every backend needs them; "
            f"{remedy}"
        )
    if hasattr(batches, "__len__") and not len(batches):
        raise UsageError(f"{what}: its batches are empty; {remedy}")
    return subject


@contextlib.contextmanager
def users_own(doing: str) -> Iterator[None]:
    """What the user's own code raises becomes a UsageError of one line, in which ``doing`` says
    what was done."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"{doing} raises {told(error)}") from error


def one_number(loss: Any) -> torch.Tensor:
    """What a loss function returned, if a gradient can begin there. Raises UsageError."""
    if not isinstance(loss, torch.Tensor):
        raise UsageError(
            f"the loss returns {_article(loss)}; let it return one tensor, such as the sum of "
            f"its terms"
        )
    if loss.numel() != 1:
        raise UsageError(
            f"the loss returns a tensor of shape {list(loss.shape)}; let it return one number, "
            f"such as its mean()"
        )
    return loss


def parameters_of(model: Any) -> list[torch.nn.Parameter]:
    """The model's parameters, in its own order; none of a function."""
    own = getattr(model, "parameters", None)
    return list(own()) if callable(own) else []


def _buffers(model: Any) -> list[torch.Tensor]:
    own = getattr(model, "buffers", None)
    return list(own()) if callable(own) else []


def _article(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
