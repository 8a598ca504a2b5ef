"""A step of an optimizer as users write it, instead of its internal calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...operators.optimizers import STATES, USED_WITH
from .source_repr import Speller, identifier


def optimizer(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], speller: Speller
) -> tuple[list[str], list[str]]:
    """The lines of :func:`consistency.operators.optimizers.step`, and expressions for the
    parameters and states after it."""
    parameters, gradients, states = args
    options = {key: value for key, value in kwargs.items() if key != "steps"}
    given = ", ".join(f"{identifier(key)}={speller.value(value)}" for key, value in options.items())
    count = kwargs.get("steps", 1)
    used = [
        key for key in STATES[name] if options.get(USED_WITH.get(key, ""), key not in USED_WITH)
    ]
    leaves = ", ".join(f"{speller.value(x)}.detach().requires_grad_()" for x in parameters)
    lines = [f"leaves = [{leaves}]", f"optimizer = torch.optim.{name}(leaves, {given})"]
    for i, gradient in enumerate(gradients):
        lines.append(f"leaves[{i}].grad = {speller.value(gradient)}")
        entries = (
            [] if name == "SGD" else [f"step={_step(float(count), bool(options.get('fused')))}"]
        )
        entries += [
            f"{key}={speller.value(drawn[i])}" for key, drawn in zip(used, states, strict=True)
        ]
        if entries:
            lines.append(f"optimizer.state[leaves[{i}]].update({', '.join(entries)})")
    lines.append("optimizer.step()")
    outputs = [f"leaves[{i}].detach()" for i in range(len(parameters))]
    return lines, [
        *outputs,
        *(f'optimizer.state[leaves[{i}]]["{key}"]' for key in used for i in range(len(parameters))),
    ]


def _step(count: float, fused: bool) -> str:
    return f"torch.tensor({count}{', device=device' if fused else ''})"
