"""Mistakes of the comparison itself, to be ruled out before a backend is blamed, each with its
remedy.

The checks inspect the model, its inputs, torch's switches, and the side effects of one forward pass
(forward_probe.py). They use no backend and no tolerance.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..core import dtypes
from ..core.trees import tensors_in
from . import forward_probe
from .bitwise_equality import differing, digest, named_tensors
from .training_task import Subject, users_own

MOST_NAMED = 3  # names that a sentence lists
MOST_BATCHES = 64  # that are compared
MOST_BYTES = 1 << 28  # of a model that the factory makes again for comparison
# Mistakes that may make a model raise in float64 or on a device.
RAISING = ("not-moved", "promoted", "mixed-dtypes")
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))  # _parameters, _buffers, _modules, hooks


@dataclass(frozen=True, slots=True)
class Mistake:
    """``name`` for programs, ``words`` describe the mistake, ``remedy`` what to do."""

    name: str
    words: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.words}; {self.remedy}"


def check(subject: Subject, factory: Callable[[], Subject] | None = None) -> tuple[Mistake, ...]:
    """The mistakes that can be found before a comparison, the most relevant first.

    ``factory`` makes the subject again, if possible. The model, its inputs and torch's generator
    are left unchanged.
    """
    state = torch.get_rng_state()
    try:
        mistakes = [
            *_mode(subject),
            *_forward(subject),
            *_unregistered_tensors(subject),
            *_dtypes(subject),
            *_batch_order(subject),
            *switches(),
        ]
        if factory is not None:
            mistakes += _factory_differences(subject, factory)
    finally:
        torch.set_rng_state(state)
    return tuple(mistakes)


def check_pair(first: Any, second: Any) -> tuple[Mistake, ...]:
    """Whether two models that should be equal begin with different weights."""
    other = differing(first, second)
    remedy = "call second.load_state_dict(first.state_dict()) before you compare"
    return (
        (Mistake("other-weights", f"the two models begin with different weights: {other}", remedy),)
        if other
        else ()
    )


def switches() -> Iterator[Mistake]:
    """Global switches: TF32 and similar, autocast, cuDNN benchmarking."""
    reduced = [name for name, on in _reduced_precision_switches() if on]
    if reduced:
        words = (
            f"{' and '.join(reduced)} {'is' if len(reduced) == 1 else 'are'} on: products "
            f"have fewer digits"
        )
        remedy = (
            "call torch.set_float32_matmul_precision('highest') and set "
            "torch.backends.cudnn.allow_tf32 = False"
        )
        yield Mistake("reduced-precision", words, remedy)
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            dtype = dtypes.name_of(torch.get_autocast_dtype(device))
            words = f"autocast to {dtype} is on for {device} around the comparison"
            remedy = (
                "leave the `with torch.autocast(…)` block, or put it into the model's "
                "forward if it is to be compared"
            )
            yield Mistake("autocast", words, remedy)
    if torch.backends.cudnn.benchmark:
        words = (
            "torch.backends.cudnn.benchmark is on: cuDNN picks whichever kernel is fastest today"
        )
        yield Mistake(
            "cudnn-benchmark", words, "set torch.backends.cudnn.benchmark = False while you compare"
        )


def _reduced_precision_switches() -> Iterator[tuple[str, bool]]:
    yield "TF32 in matrix products", torch.get_float32_matmul_precision() != "highest"
    # cuDNN's default is on, but matters only with a GPU; our backends switch it off.
    yield "TF32 in cuDNN", torch.cuda.is_available() and bool(torch.backends.cudnn.allow_tf32)


def _mode(subject: Subject) -> Iterator[Mistake]:
    """Layers that behave differently in training mode, if only predictions are computed."""
    if subject.loss is not None or subject.optimizer is not None or subject.steps:
        return
    drops, norms = forward_probe.dropping(subject.model), forward_probe.normalizing(subject.model)
    kinds = (
        (drops, "drops elements at random"),
        (norms, "normalizes with the batch's own statistics"),
    )
    behavior = " and ".join(f"{_joined(places)} {does}" for places, does in kinds if places)
    if behavior:
        words = f"the model is in training mode and is asked for predictions: {behavior}"
        yield Mistake(
            "train-mode",
            words,
            "call model.eval() first (or give a loss and steps, if training is to be compared)",
        )


def _forward(subject: Subject) -> Iterator[Mistake]:
    effects = forward_probe.forward(subject.model, _first_batch(subject)[0])
    if effects is None:
        return
    if effects.drew:
        drops = forward_probe.dropping(subject.model)
        who = _joined(drops) if drops else "forward"
        words = (
            f"{who} draws from torch's global generator: each device, and each version of torch, "
            "draws other numbers for a seed (here the CPU draws for all of them)"
        )
        remedy = (
            "call model.eval(), or draw the mask on the CPU from a generator of your own "
            "and move it (as examples:dropout does)"
        )
        yield Mistake("random", words, remedy)
    if effects.changed:
        words = (
            f"forward changes {_joined(effects.changed)}: the second run starts from another "
            f"model than the first"
        )
        yield Mistake(
            "changed", words, "copy it before you write to it, or return the new value instead"
        )
    if effects.written:
        words = f"forward writes to its input {effects.written[0]}: the next run gets other numbers"
        yield Mistake(
            "inputs-changed",
            words,
            "begin forward with x = x.clone(), or leave out the operator that works in place",
        )
    if effects.widened:
        module = effects.widened[0]
        words = (
            f"what {module} returns is float64 although all that goes in is float32: a "
            f"float64 tensor or NumPy array in its forward"
        )
        yield Mistake(
            "promoted",
            words,
            "write constants as Python numbers, or as torch.as_tensor(value, dtype=x.dtype)",
        )
    if effects.stale:
        words = (
            f"the running statistics of {_joined(effects.stale)} stay as they are in training, "
            f"and evaluation will normalize with them"
        )
        remedy = (
            "let the layer write to its own running_mean and running_var (momentum above 0, "
            "no copies)"
        )
        yield Mistake("stale-statistics", words, remedy)


def _unregistered_tensors(subject: Subject) -> Iterator[Mistake]:
    """Tensors that ``model.to(device)`` does not move because they are not registered."""
    closure = (
        inspect.getclosurevars(subject.model).nonlocals if inspect.isfunction(subject.model) else {}
    )
    names = [name for name, value in closure.items() if any(True for _ in tensors_in(value))]
    if names:
        words = (
            f"the function that is the model uses {_joined(names)} from around it: no backend "
            f"gets a copy"
        )
        yield Mistake(
            "not-moved",
            words,
            "make it an nn.Module, and these its parameters and buffers (register_buffer)",
        )
    registered = {id(tensor) for _, tensor in named_tensors(subject.model)}
    places = []
    for name, module in forward_probe.modules(subject.model):
        for attribute, value in vars(module).items():
            if attribute not in _MODULE_ATTRIBUTES and any(
                id(tensor) not in registered for tensor in tensors_in(value)
            ):
                places.append(f"{name}.{attribute}" if name else attribute)
    if places:
        words = (
            f"model.to(device) leaves {_joined(places)} behind, as no module knows that it is "
            f"a tensor of its own"
        )
        remedy = (
            f"register it with self.register_buffer({places[0].rpartition('.')[2]!r}, …), "
            f"or as an nn.Parameter"
        )
        yield Mistake("not-moved", words, remedy)


def _dtypes(subject: Subject) -> Iterator[Mistake]:
    """float64 mixed with float32: torch silently computes with the wider dtype."""
    kinds: dict[str, list[str]] = {}
    for name, tensor in named_tensors(subject.model):
        if tensor.is_floating_point():
            kinds.setdefault(dtypes.name_of(tensor.dtype), []).append(name)
    common = max(kinds, key=lambda kind: len(kinds[kind]), default="")
    for kind, names in kinds.items():
        if kind != common:
            words = (
                f"{_joined(names)} {'is' if len(names) == 1 else 'are'} {kind}, the rest of "
                f"the model is {common}"
            )
            yield Mistake(
                "mixed-dtypes",
                words,
                f"call model.to(torch.{common}), or cast where the model means it",
            )
    inputs, targets = _first_batch(subject)
    for where, values in (("input", inputs), ("target", targets)):
        for position, value in enumerate(values):
            if (
                isinstance(value, torch.Tensor)
                and value.dtype == torch.float64
                and common not in ("", "float64")
            ):
                words = (
                    f"{where} {position} is float64 (as NumPy makes them) and the model is {common}"
                )
                yield Mistake("promoted", words, f"give the {where} as value.float()")


def _batch_order(subject: Subject) -> Iterator[Mistake]:
    """Batches that change their order or their numbers when iterated again."""
    if subject.batches is None:
        return
    sampler = getattr(subject.batches, "sampler", None)
    shuffled = isinstance(sampler, torch.utils.data.RandomSampler) and sampler.generator is None
    first, again = ([digest(batch) for batch in _batches(subject)] for _ in range(2))
    if first != again or shuffled:
        index = next(
            (i for i, (a, b) in enumerate(zip(first, again, strict=False)) if a != b),
            min(len(first), len(again)),
        )
        reason = (
            "it is a DataLoader with shuffle=True and no generator"
            if shuffled
            else f"batch {index} is another one"
        )
        words = f"the data are not the same when they are asked for a second time: {reason}"
        remedy = (
            "make the batches once, as a list, or seed them: DataLoader(…, "
            "generator=torch.Generator().manual_seed(0))"
        )
        yield Mistake("data-order", words, remedy)


def _batches(subject: Subject) -> list[Any]:
    with users_own("going through the batches"):
        return [
            batch
            for _, batch in zip(range(MOST_BATCHES), iter(subject.batches or ()), strict=False)
        ]


def _first_batch(subject: Subject) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Inputs and targets of the first step, also of a DataLoader, which can only be iterated."""
    if subject.batches is None or hasattr(subject.batches, "__getitem__"):
        return subject.batch(0)
    with users_own("going through the batches"):
        return replace(subject, batches=[next(iter(subject.batches))]).batch(0)


def _factory_differences(subject: Subject, factory: Callable[[], Subject]) -> Iterator[Mistake]:
    """A factory that returns something different each time: two processes would compare two
    models."""
    if sum(tensor.nbytes for _, tensor in named_tensors(subject.model)) > MOST_BYTES:
        return
    try:
        second_subject = factory()
    except Exception:  # the first call worked, and its result is compared
        return
    other = differing(subject.model, second_subject.model)
    if other:
        words = f"the factory gives other weights each time: {other}"
        yield Mistake(
            "other-weights",
            words,
            "call torch.manual_seed(0) at its beginning, or load the weights from a file",
        )
    if digest((subject.inputs, subject.targets, _batches(subject))) != digest(
        (second_subject.inputs, second_subject.targets, _batches(second_subject))
    ):
        words = "the factory gives other inputs or targets each time"
        yield Mistake(
            "other-inputs",
            words,
            "call torch.manual_seed(0) at its beginning, or keep the inputs in a file",
        )


def _joined(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
