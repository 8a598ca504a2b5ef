"""The dropout family and rrelu, compared as in :mod:`.random`; in evaluation nothing is drawn, and
outputs are compared directly."""

from __future__ import annotations

from typing import Any

import torch

from ..core.recipe import Arg
from . import distribution_tests as likely
from .activations import near
from .declare import ROUNDED, Call, Drawing, ErrorModel, Sample, call
from .hooks import Args, Kwargs, Tensors
from .nonunique_results import argument, unit_of
from .random import NUMBERS, RANDOM, flags, op, sizes
from .sampling import shape_of

PROBABILITIES = (0.25, 0.5, 0.1, 0.75)
SATURATED = -1.7580993408473766  # −λα of SELU, which alpha_dropout puts in place of what it drops
TWOFOLD = 4.0  # roundings of a scale and of a product with it, in ulp of the format


def given(args: Args, kwargs: Kwargs, p: float = 0.5, training: bool = True) -> tuple[float, bool]:
    """p and training of a dropout, by position or by name."""
    return float(argument("p", 1, p, args, kwargs)), bool(
        argument("training", 2, training, args, kwargs)
    )


def scaled(args: Args, out: torch.Tensor, p: float) -> torch.Tensor:
    """Which elements are x/(1 − p)."""
    expected: torch.Tensor = args[0] / (1.0 - p)
    return (out - expected).abs() <= TWOFOLD * unit_of(args) * expected.abs() + 2.0**-23


def dropping(d: Drawing) -> Call:
    """Mostly training; at times evaluation, or training in which nothing or everything is
    dropped."""
    settings = d.choice((0.5, False), (0.0, True), (1.0, True), *[(p, True) for p in PROBABILITIES])
    if settings[0] in PROBABILITIES and settings[1]:
        return call(d.tensor(sizes(d), NUMBERS), *settings)
    return call(d.tensor(shape_of(d), near(0.0)), *settings)


def of_dropout(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Every element is 0 or x/(1 − p), and a share of p is 0. A second output is the mask of what
    was kept."""
    (p, training), out, x = given(args, kwargs), outputs[0], args[0]
    if len(outputs) == 1 and (not training or p in (0.0, 1.0)):
        return outputs
    surviving, nonzero = out != 0.0, x != 0.0
    possible = scaled(args, out, p) | (out == 0.0)
    if len(outputs) > 1:
        possible &= (outputs[1] == surviving) | ~nonzero
    return flags(
        possible,
        likely.share(surviving[nonzero], 1.0 - p),
        likely.unrelated(surviving, 1.0 - p, nonzero),
    )


def channels(rank: int) -> Sample:
    """Batches of so many channels with ``rank`` dimensions each."""

    def sample(d: Drawing) -> Call:
        shape = (d.integer(1, 8), d.size(1, 65), *(d.integer(1, 4) for _ in range(rank)))
        # In evaluation nothing is dropped.
        return call(d.tensor(shape, NUMBERS), d.choice(*PROBABILITIES), d.choice(True, True, False))

    return sample


def of_channels(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """As dropout, but a channel is kept or dropped as a whole."""
    (p, training), out, x = given(args, kwargs), outputs[0].flatten(2), args[0].flatten(2)
    if not training:
        return outputs
    surviving, nonzero = (out != 0.0).any(-1), (x != 0.0).any(-1)
    possible = torch.where(surviving.unsqueeze(-1), scaled((x,), out, p), out == 0.0)
    return flags(
        possible,
        likely.share(surviving[nonzero], 1.0 - p),
        likely.unrelated(surviving, 1.0 - p, nonzero),
    )


def always_dropping(d: Drawing) -> Call:
    return call(d.tensor(sizes(d), NUMBERS), d.choice(*PROBABILITIES), True)


def alpha_dropping(d: Drawing) -> Call:
    """Mostly training; in evaluation, the default, nothing is dropped."""
    training = () if d.choice(False, False, True) else (True,)
    return call(d.tensor(sizes(d), NUMBERS), d.choice(*PROBABILITIES), *training)


def of_alpha_dropout(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """a·x + b, or a·α + b for what is dropped, with a and b that keep mean 0 and variance 1."""
    (p, training), out, x = given(args, kwargs, training=False), outputs[0], args[0]
    if not training:
        return outputs
    a = ((1.0 - p) * (1.0 + p * SATURATED**2)) ** -0.5
    b = -a * SATURATED * p
    room = TWOFOLD * unit_of(args) * (a * x.abs() + abs(b) + a * abs(SATURATED))
    surviving, dropped = (
        (out - (a * z + b)).abs() <= room for z in (x, torch.full_like(x, SATURATED))
    )
    decided = ~(surviving & dropped)
    return flags(
        surviving | dropped,
        likely.share(surviving[decided], 1.0 - p),
        likely.unrelated(surviving, 1.0 - p, decided),
    )


def sloping(d: Drawing) -> Call:
    """Half of the time training (the CPU has none in float16); in evaluation the slope is the mean
    of both, which may be negative, 0 or equal."""
    slopes: dict[str, Arg] = (
        {"lower": d.number(0.0, 0.25), "upper": d.number(0.25, 1.0)} if d.flag() else {}
    )
    training = d.dtype != "float16" and d.flag()
    if slopes and not training and d.flag():
        low = d.number(-2.0, 2.0)
        slopes = {"lower": low, "upper": low + d.number(0.0, 8.0)}
    return call(
        d.tensor(sizes(d), NUMBERS) if training else d.tensor(shape_of(d), near(0.0)),
        training=training,
        **slopes,
    )


def of_slopes(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """x where it is positive, else x times a slope that is even between lower and upper."""
    out, x = outputs[0], args[0]
    if not kwargs.get("training", False):
        return outputs
    low, high = kwargs.get("lower", 1.0 / 8), kwargs.get("upper", 1.0 / 3)
    room = TWOFOLD * unit_of(args) * x.abs()
    possible = torch.where(x >= 0.0, out == x, (out <= low * x + room) & (out >= high * x - room))
    slope = (out / x)[x < 0.0]
    return flags(
        possible, likely.uniform((slope - low) / (high - low)) if high > low else torch.tensor(True)
    )


def undecided(args: Args, kwargs: Kwargs, gradients: Tensors) -> Tensors:
    """The gradients, emptied if they depend on drawn numbers."""
    random = (
        kwargs.get("training", False) if len(args) < 3 else args[2] and args[1] not in (0.0, 1.0)
    )
    return tuple(g.new_zeros(0) for g in gradients) if random else gradients


SELECTED = ErrorModel("exact", backward="output", moves=True)
NOT_DROPPED = "without training, the argument itself is returned, which nothing promises"
ACTIVATION: dict[str, Any] = {
    "family": "activation",
    "differentiable": True,
    "observe_gradients": undecided,
}
OPERATORS = [
    op(
        "nn.functional.dropout",
        dropping,
        of_dropout,
        SELECTED,
        **ACTIVATION,
        traits=RANDOM | {"elementwise"},
        unspecified_aliasing=NOT_DROPPED,
    ),
    op(
        "nn.functional.rrelu",
        sloping,
        of_slopes,
        ROUNDED,
        **ACTIVATION,
        traits=RANDOM | {"elementwise"},
    ),
    op("native_dropout", always_dropping, of_dropout),
    op("nn.functional.dropout1d", channels(1), of_channels),
    op("nn.functional.dropout2d", channels(2), of_channels),
    op("nn.functional.dropout3d", channels(3), of_channels),
    op(
        "nn.functional.alpha_dropout",
        alpha_dropping,
        of_alpha_dropout,
        unspecified_aliasing=NOT_DROPPED,
    ),
]
