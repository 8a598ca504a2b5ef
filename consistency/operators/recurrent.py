"""Recurrent networks with explicit weights. Errors accumulate over the steps, so S is the response
to perturbed inputs."""

from __future__ import annotations

import math
from typing import Any

import torch

from .declare import FLOAT, Call, Domain, Drawing, Operator, Sample, accumulated, call
from .hooks import Args, Kwargs, Tensors
from .magnitudes import joint_maximum

INPUTS = Domain(-2.0, 2.0)
SATURATING = Domain(-64.0, 64.0)
_MANY_STEPS = 16  # over fewer even weights of N(0, 1) leave errors within the budget
_AFTER_WEIGHTS = 6  # arguments of a sequence, of which the last one is ``batch_first``
_MATRIX = 2  # dimensions of weights; biases have one
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def weights(d: Drawing, gates: int, inputs: int, hidden: int, biases: bool) -> list[Any]:
    """w_ih, w_hh and perhaps b_ih, b_hh, as wide as layers are initialized: ±1/√hidden."""
    width = Domain(-1.0 / math.sqrt(hidden), 1.0 / math.sqrt(hidden))
    shapes: list[tuple[int, ...]] = [(gates * hidden, inputs), (gates * hidden, hidden)]
    return [d.tensor(shape, width) for shape in (*shapes, *[(gates * hidden,)] * (2 * biases))]


def sequence(name: str) -> Sample:
    """One to three layers, one or both directions, the batch first or second. One time in sixteen
    wider than a vector, one in eight with inputs that saturate the gates, and one in three from
    states of zeros, with which modules begin that are given none. Of several layers now and then
    everything between them is dropped, which draws no numbers."""

    def sample(d: Drawing) -> Call:
        inputs, hidden = d.size(1, 17), d.size(1, 17)
        steps, batch, layers = d.size(1, 33), d.size(1, 4), d.integer(1, 3)
        if d.integer(0, 15) == 15:
            inputs, hidden, steps = d.choice(33, 65), d.choice(64, 33), d.integer(1, 5)
        drawn = SATURATING if d.integer(0, 7) == 7 else INPUTS
        biases, both, first = (
            not d.choice(False, False, True),
            d.choice(False, False, True),
            d.choice(False, False, True),
        )
        direction_count = 1 + both
        x = d.tensor((batch, steps, inputs) if first else (steps, batch, inputs), drawn)
        zeros = ("constant", "0") if d.choice(False, False, True) else None
        states = [
            d.tensor((layers * direction_count, batch, hidden), INPUTS, values=zeros, overlap=False)
            for _ in range(1 + (name == "lstm"))
        ]
        sizes = [
            inputs if layer == 0 else hidden * direction_count
            for layer in range(layers)
            for _ in range(direction_count)
        ]
        flat = [w for size in sizes for w in weights(d, GATES[name], size, hidden, biases)]
        state = tuple(states) if name == "lstm" else states[0]
        dropped = layers > 1 and d.choice(*[False] * 5, True)
        return call(x, state, flat, biases, layers, float(dropped), dropped, both, first)

    return sample


def cell(name: str) -> Sample:
    """One step of a batch, one time in three from states of zeros."""

    def sample(d: Drawing) -> Call:
        inputs, hidden, batch = d.size(1, 65), d.size(1, 33), d.size(1, 9)
        zeros = ("constant", "0") if d.choice(False, False, True) else None
        states = [
            d.tensor((batch, hidden), INPUTS, values=zeros) for _ in range(1 + (name == "lstm"))
        ]
        flat = weights(d, GATES[name], inputs, hidden, not d.choice(False, False, True))
        return call(
            d.tensor((batch, inputs), INPUTS), tuple(states) if name == "lstm" else states[0], *flat
        )

    return sample


def products_of(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n of each gate: the inputs and the hidden states."""
    state = args[1][0] if isinstance(args[1], tuple) else args[1]
    return float(args[0].shape[-1] + state.shape[-1])


def of_gates(args: Args, kwargs: Kwargs, gradients: Tensors) -> Any:
    """The largest gradient, and what the inputs (up to 2) make of 1 − h², which is a small
    difference where a gate saturates. Over many steps of weights that enlarge what they are given
    an early rounding grows as the gradients do: there it is their response to the inputs."""
    if _amplifies(*args):
        return "normwise"
    return float(joint_maximum(args, kwargs, gradients)) + 4.0


def _amplifies(x: torch.Tensor, state: Any, flat: Any = (), *others: Any) -> bool:
    """Whether a row of some weights has a norm above 1 in the mean, and there are many steps."""
    if not isinstance(flat, (list, tuple)):
        return False  # a single step
    batch_first = bool(others[-1]) if len(others) == _AFTER_WEIGHTS else False
    steps = x.shape[1 if batch_first else 0]
    return steps > _MANY_STEPS and any(
        float(w.square().sum()) > w.shape[0] for w in flat if w.ndim == _MATRIX
    )


def recurrent(name: str, sample: Sample) -> Operator:
    error = accumulated("normwise", products_of, backward=of_gates)
    return Operator(
        name=name,
        family="rnn",
        sample=sample,
        error=error,
        dtypes=FLOAT,
        traits=frozenset({"through-sums"}),
    )


OPERATORS = [
    *(recurrent(name, sequence(name)) for name in GATES),
    *(recurrent(f"{name}_cell", cell(name)) for name in GATES),
]
