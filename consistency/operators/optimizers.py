"""One step of ``torch.optim``'s optimizers from a drawn state, over several parameters; parameters
and states are judged."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .declare import FLOAT, Call, Domain, Drawing, Operator, accumulated, call, one
from .parameter_sampling import optional_arguments

PARAMETER = Domain(-4.0, 4.0)
GRADIENT = Domain(-2.0, 2.0)
SQUARE = Domain(2.0**-4, 4.0)
FRESH = Domain(0.0, 4.0, specials=("0",), wide=(-20, 1))  # squares before and after a first step
MOST = 3
# States of each optimizer, and whether they are squares.
STATES: dict[str, dict[str, bool]] = {
    "SGD": {"momentum_buffer": False},
    "Adam": {"exp_avg": False, "exp_avg_sq": True, "max_exp_avg_sq": True},
    "AdamW": {"exp_avg": False, "exp_avg_sq": True, "max_exp_avg_sq": True},
    "RMSprop": {"square_avg": True, "momentum_buffer": False},
    "Adagrad": {"sum": True},
}
USED_WITH = {"max_exp_avg_sq": "amsgrad", "momentum_buffer": "momentum"}


def step(
    optimizer: str, parameters: list[torch.Tensor], gradients: list[torch.Tensor],
    states: list[list[torch.Tensor]],
    steps: int = 1, **options: Any,
) -> list[torch.Tensor]:  # fmt: skip
    """The parameters and states after a step. ``steps`` is the number of earlier steps.

    The parameters themselves are optimized, not ``x.detach()``: that shares memory in torch, but is
    a copy on runtimes whose tensors have no storage.
    """
    built = getattr(torch.optim, optimizer)(parameters, **options)
    names = [
        name
        for name in STATES[optimizer]
        if options.get(USED_WITH.get(name, ""), name not in USED_WITH)
    ]
    for i, (leaf, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        leaf.grad = gradient
        state = built.state[leaf]
        if optimizer != "SGD":
            on = leaf.device if options.get("fused") else "cpu"
            state["step"] = torch.tensor(float(steps), dtype=torch.float32, device=on)
        for name, per_parameter in zip(names, states, strict=True):
            state[name] = per_parameter[i]
    try:
        built.step()
    finally:
        for leaf in parameters:
            leaf.grad = None
    return [
        *(x.detach() for x in parameters),
        *(built.state[leaf][name] for name in names for leaf in parameters),
    ]


def sgd(
    parameters: list[torch.Tensor], gradients: list[torch.Tensor],
    states: list[list[torch.Tensor]],
    steps: int = 1, *, foreach: bool | None = None, nesterov: bool = False, **options: Any,
) -> list[torch.Tensor]:  # fmt: skip
    """The step of SGD, with names for conditions (`foreach == True`)."""
    options |= {"foreach": foreach, "nesterov": nesterov}
    return step("SGD", parameters, gradients, states, steps, **options)


def adam(
    optimizer: str, parameters: list[torch.Tensor], gradients: list[torch.Tensor],
    states: list[list[torch.Tensor]],
    steps: int = 1, *, fused: bool | None = None, amsgrad: bool = False, **options: Any,
) -> list[torch.Tensor]:  # fmt: skip
    """The step of Adam or AdamW, with names for conditions."""
    options |= {"fused": fused, "amsgrad": amsgrad}
    return step(optimizer, parameters, gradients, states, steps, **options)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: functools.partial(step, name) for name in STATES
} | {
    "SGD": sgd,
    "Adam": functools.partial(adam, "Adam"),
    "AdamW": functools.partial(adam, "AdamW"),
}


def drawn(optimizer: str, d: Drawing) -> Call:
    """Defaults first: plain steps of one parameter.

    ``fused`` with contiguous tensors only: torch's kernels on the CPU read and write strided ones
    beyond their end (docs/findings.md).
    """
    options: dict[str, Any] = {"lr": d.choice(0.125, 0.5, 0.001)}
    how = (
        d.choice("plain", "foreach", "fused")
        if optimizer != "RMSprop"
        else d.choice("plain", "foreach")
    )
    options |= {"foreach": how == "foreach"} if how != "fused" else {"fused": True}
    if d.flag():
        options["weight_decay"] = d.choice(0.125, 0.01)
    if optimizer in ("Adam", "AdamW"):
        options |= optional_arguments(
            d, betas=((0.5, 0.75), (0.0, 0.999), (0.9, 0.5)), eps=(2.0**-10, 1.0)
        )
    if optimizer == "RMSprop":
        options |= optional_arguments(d, alpha=(0.5, 0.0), eps=(2.0**-10, 1.0))
    if optimizer == "Adagrad":
        options |= optional_arguments(d, lr_decay=(0.125,), eps=(2.0**-10, 1.0))
    if d.flag():
        options["maximize"] = True
    if optimizer in ("Adam", "AdamW") and d.flag():
        options["amsgrad"] = True
    if optimizer in ("SGD", "RMSprop") and d.flag():
        options["momentum"] = d.choice(0.5, 0.9)
        if optimizer == "SGD" and d.flag():
            options |= d.choice({"nesterov": True}, {"dampening": 0.25})
    shapes = [d.shape(0, 3, elements=512) for _ in range(d.integer(1, MOST))]
    names = {name: square for name, square in STATES[optimizer].items()
             if options.get(USED_WITH.get(name, ""), name not in USED_WITH)}  # fmt: skip
    views, square_domain = how != "fused", FRESH if d.integer(0, 7) == 7 else SQUARE
    tensors: list[Any] = [
        [d.tensor(shape, PARAMETER, layout=views, overlap=False) for shape in shapes]
    ]
    tensors.append([d.tensor(shape, GRADIENT, layout=views) for shape in shapes])
    states = [
        [
            d.tensor(shape, square_domain if square else GRADIENT, layout=views, overlap=False)
            for shape in shapes
        ]
        for square in names.values()
    ]
    if d.flag():
        options["steps"] = d.choice(d.integer(1, 100), 10000)
    return call(*tensors, states, **options)


OPERATORS = [
    Operator(
        name=f"optim.{name}", family="optimizers", sample=functools.partial(drawn, name),
        function=FUNCTIONS[name],
        error=accumulated("pointwise", one, wide_accumulation=False), dtypes=FLOAT,
        differentiable=False,
        mutates=tuple(range(5 * MOST)), traits=frozenset({"inplace"}),
    )
    for name in STATES
]  # fmt: skip
