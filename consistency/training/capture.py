"""``consistency model TARGET --record FOLDER``: the operator calls of a model as a corpus, for
machines without the model."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from ..core.trees import tensors_in
from ..storage.recording.header import CORPUS, Header
from .trace import corpus
from .trace.capture import CaptureMode
from .training_task import Subject, one_number, parameters_of, users_own

STEPS = 2  # of training: the first step of an optimizer starts from zeros and is untypical


def record(
    subject: Subject, folder: str | Path, *, steps: int = STEPS, literal: int = corpus.LITERAL
) -> corpus.SavedCalls:
    """Run a copy of the model for a few steps on the CPU and write its distinct calls to
    ``folder``, a corpus.

    Calls are distinguished by operator, shapes, dtypes, strides, arguments, and the range of their
    numbers. Tensors of at most ``literal`` bytes are kept bit by bit; larger ones as recipes with
    the same shape, strides and range, so that a weight of 100 MB takes 200 bytes. Raises
    BundleError if the folder already holds a recording.
    """
    calls, subject = corpus.CorpusCalls(literal), subject.settled()
    with calls.modules, users_own("on the CPU the model"):
        _run(subject, calls, min(subject.steps, steps))
    header = Header(
        CORPUS, settings={"source": "model", "model": subject.name, "calls": calls.count}
    )
    corpus.write(sorted(calls.records, key=lambda call: call.number), Path(folder), header)
    return calls.kept(
        sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    )


def _run(subject: Subject, calls: corpus.CorpusCalls, steps: int) -> None:
    model, state = copy.deepcopy(subject.model), torch.get_rng_state()
    parameters = parameters_of(model)
    optimizer = (
        subject.optimizer(parameters) if subject.optimizer is not None and parameters else None
    )
    try:
        for step in range(max(steps, 1)):
            inputs, targets = subject.batch(step)
            with CaptureMode(calls):
                outputs = model(*inputs)
                loss = (
                    one_number(subject.loss(outputs, *targets))
                    if subject.loss is not None
                    else None
                )
            # A loss made up only to get gradients is not part of the model.
            loss = loss if loss is not None else _any_scalar(outputs)
            with CaptureMode(calls):
                if loss is not None and loss.requires_grad:
                    loss.backward()  # type: ignore[no-untyped-call]
                if optimizer is not None and steps:
                    optimizer.step()
            for parameter in parameters:
                parameter.grad = None
        if subject.after is not None:
            subject.after(model)
            with torch.no_grad(), CaptureMode(calls):
                model(*subject.batch(0)[0])
    finally:
        torch.set_rng_state(state)


def _any_scalar(outputs: Any) -> torch.Tensor | None:
    sums = [tensor.sum() for tensor in tensors_in(outputs) if tensor.requires_grad]
    return torch.stack(sums).sum() if sums else None
