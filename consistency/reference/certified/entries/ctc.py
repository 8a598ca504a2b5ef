"""Connectionist temporal classification loss (Graves et al. 2006): −log of the probability of all
paths to a target."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.nn import functional as F

from .. import elementwise as e
from .. import functions as f
from .. import sums
from ..balls import Unsure
from ..movement import cat, gather, reshape, view
from ..nodes import Constant, Node, Unknown, WithoutGradient, whole_numbers
from ..python_functions import whole
from . import entry


def _lengths(values: Any) -> list[int]:
    return [
        int(v) for v in (whole_numbers(values).reshape(-1) if isinstance(values, Node) else values)
    ]


def _probability(frames: Node, target: list[int], blank: int) -> Node:
    """The sum over all paths through frames (time, classes), by the forward recursion. Blanks may
    occur between labels and around them.

    A label follows its predecessor directly if the two differ.
    """
    labels = [blank] + [x for label in target for x in (label, blank)]
    count, (steps, classes) = len(labels), frames.shape
    symbols = np.array(labels, dtype=np.int64)
    before = np.arange(-1, count - 1)
    skipped = np.array(
        [s - 2 if s > 1 and labels[s] not in (blank, labels[s - 2]) else -1 for s in range(count)],
        dtype=np.int64,
    )
    if not steps:
        raise Unsure("a sequence without frames")
    start = np.where(np.arange(count) < 2, symbols, -1)
    alpha = gather(frames, start, (count,))
    for t in range(1, steps):
        reached = e.add(
            e.add(alpha, gather(alpha, before, (count,))), gather(alpha, skipped, (count,))
        )
        alpha = e.mul(reached, gather(frames, t * classes + symbols, (count,)))
    last = view(alpha, (), (), count - 1)
    return last if count == 1 else e.add(last, view(alpha, (), (), count - 2))


def _frames_needed(target: Any) -> int:
    """One for each label, and for the blank between two that are equal."""
    return len(target) + int(np.count_nonzero(target[1:] == target[:-1]))


def _losses(
    log_probs: Node, targets: Node, input_lengths: Any, target_lengths: Any, blank: int,
    zero_infinity: bool
) -> Node:  # fmt: skip
    """One loss per sequence; targets are rows of a matrix, or concatenated."""
    steps, classes = log_probs.shape[0], log_probs.shape[-1]
    batch = 1 if log_probs.ndim == 2 else log_probs.shape[1]
    frames, numbers = _lengths(input_lengths), whole_numbers(targets)
    counts = _lengths(target_lengths)
    begins = np.concatenate([[0], np.cumsum(counts)])
    values: list[Node] = []
    for n in range(batch):
        target = (
            numbers[n, : counts[n]]
            if numbers.ndim == 2
            else numbers.reshape(-1)[begins[n] : begins[n + 1]]
        )
        if frames[n] > steps:
            raise Unsure("a sequence longer than its frames")
        if zero_infinity and _frames_needed(target) > frames[n]:
            values.append(Constant(np.zeros(1)))  # and its gradient is 0, as torch documents it
            continue
        own = view(log_probs, (frames[n], classes), (batch * classes, 1), n * classes)
        # torch's gradient is with respect to the inputs of a preceding log_softmax, and not the
        # derivative of the loss.
        own = WithoutGradient(
            own, "the gradient of the ctc loss is one by what stands before a softmax"
        )
        likely = _probability(f.exp(own), [int(x) for x in target], blank)
        values.append(reshape(e.neg(f.log(likely)), (1,)))
    losses = cat(values, 0)
    return e.where(e.is_infinite(losses), 0.0, losses) if zero_infinity else losses


@entry("_ctc_loss")
def _ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, result: Any,
    blank: int = 0, zero_infinity: bool = False
) -> Any:  # fmt: skip
    losses = _losses(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    table = Unknown(
        tuple(result[1].shape), "the table of the paths' probabilities", inputs=[log_probs]
    )
    return reshape(losses, tuple(result[0].shape)), table


@whole(F.ctc_loss)
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Node:  # fmt: skip
    """Traced as a whole, because lengths become tensors that no operator writes. The mean is over
    losses divided by their targets' lengths (0 counts as 1)."""
    losses = _losses(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if reduction == "sum":
        return sums.sum_(losses)
    if reduction == "mean":
        counts = np.array([float(max(count, 1)) for count in _lengths(target_lengths)])
        return sums.mean(e.div(losses, e.node_of(counts)))
    return losses if log_probs.ndim == 3 else reshape(losses, ())
