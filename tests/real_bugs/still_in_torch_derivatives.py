"""Reports of second derivatives and of derivatives in forward mode that torch 2.13's CPU still
gets wrong in every format, since autograd's formulas are the same on every device. Found by a
search after such derivatives were drawn, in the order in which it gave them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from consistency.operators import get
from consistency.operators.derivatives import jvp, vjp

from .still_in_torch import Still
from .triggers import F, call, t

MATRIX = ((1.3, 0.4), (-0.7, 0.9))
FACTOR = ((1.7, 0.0), (1.0, 2.0))
LOGITS = (-400.0, 401.0, -797.0)
FACTORS = (1.0, 2.0, 0.0, 3.0)


def _matrix(rows: tuple[tuple[float, ...], ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def _off(name: str, tangents: list[Tensor], *args: Tensor) -> float:
    """How far torch's derivative along tangents is from a quotient of differences in float64, as a
    share of its largest element."""
    wide, along = [a.double() for a in args], [v.double() for v in tangents]

    def moved(by: float) -> Tensor:
        result: Tensor = get(name)(*(a + by * v for a, v in zip(wide, along, strict=True)))
        return result

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    return float((jvp(get(name), *wide, along) - slope).abs().max() / slope.abs().max())


def _off_again(name: str, tangents: list[Tensor], *args: Tensor, **kwargs: Any) -> float:
    """The same of the gradient of that derivative by the first argument, along its tangent."""
    wide, along = [a.double() for a in args], [v.double() for v in tangents]

    def total(by: float, *, tracked: bool = False) -> Tensor:
        moved = [a + by * v for a, v in zip(wide, along, strict=True)]
        if tracked:
            moved[0].requires_grad_()
            inputs.append(moved[0])
        return jvp(get(name), *moved, along, **kwargs).sum()

    inputs: list[Tensor] = []
    first = total(0.0, tracked=True)
    (gradient,) = torch.autograd.grad(first, inputs)
    others = [torch.zeros_like(v) for v in along[1:]]
    along_first = [along[0], *others]
    plus, minus = (
        jvp(
            get(name),
            *(a + by * v for a, v in zip(wide, along_first, strict=True)),
            along,
            **kwargs,
        ).sum()
        for by in (1e-5, -1e-5)
    )
    slope = float(plus - minus) / 2e-5
    return abs(float((gradient * along[0]).sum()) - slope) / abs(slope)


def _second(name: str, value: float) -> float:
    """The second derivative of a function at one number, in float64."""
    x = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    (first,) = vjp(get(name), x, torch.ones((), dtype=torch.float64))
    return float(torch.autograd.grad(first, x)[0])


EYE = _matrix(((1.0, 0.0), (0.5, 1.0)))
ONES = torch.ones(2, 2)
SIDE, NONE = _matrix(((1.0, 2.0), (-1.0, 3.0))), torch.zeros(2, 2)
LOWER = torch.stack((_matrix(((2.0, 0.0), (-7.0, 3.0))), _matrix(((3.0, 0.0), (-13.0, 2.0)))))
BELOW = torch.stack((_matrix(((0.0, 0.0), (1.0, 0.0))), _matrix(((0.0, 0.0), (2.0, 0.0)))))

DERIVATIVES: tuple[Still, ...] = (
    Still(
        196682,
        "the derivative of cholesky_inverse along a tangent has its factors in the wrong order",
        call("jvp.cholesky_inverse", lambda: _matrix(FACTOR), [EYE]),
        lambda: _off("cholesky_inverse", [EYE], _matrix(FACTOR)) > 0.01,
    ),
    Still(
        196694,
        "that of cholesky_solve along a tangent of several factors of one right side is wrong",
        call("jvp.cholesky_solve", lambda: SIDE, lambda: LOWER, [NONE, BELOW]),
        lambda: _off("cholesky_solve", [NONE, BELOW], SIDE, LOWER) > 0.01,
    ),
    Still(
        196705,
        "the derivative of logcumsumexp along a tangent loses what lies far below the maximum",
        call("jvp.logcumsumexp", lambda: t(*LOGITS), 0, [t(1.0, -1.0, 2.0)]),
        lambda: float(jvp(get("logcumsumexp"), t(*LOGITS), 0, [t(1.0, -1.0, 2.0)])[0]) == 0.0,
    ),
    Still(
        192540,
        "the gradient of the derivative of a determinant along a tangent is wrong",
        call("jvp.linalg.det", lambda: _matrix(MATRIX), [EYE]),
        lambda: _off_again("linalg.det", [EYE], _matrix(MATRIX)) > 0.01,
        "backward",
    ),
    Still(
        192540,
        "so is that of a solution",
        call("jvp.linalg.solve", lambda: _matrix(MATRIX), lambda: ONES, [EYE, ONES]),
        lambda: _off_again("linalg.solve", [EYE, ONES], _matrix(MATRIX), ONES) > 0.01,
        "backward",
    ),
    Still(
        196700,
        "so is that of a layer norm",
        call(
            f"jvp.{F}layer_norm", lambda: t(0.7, 0.0), [2], [t(1.0, 0.5)], eps=0.25,
        ),
        lambda: _layer_norm_is_off(),
        "backward",
    ),
    Still(
        196703,
        "the second derivative of sinc at 0 is NaN, not -pi ** 2 / 3",
        call("vjp.sinc", lambda: t(0.0), lambda: t(1.0)),
        lambda: math.isnan(_second("sinc", 0.0)),
        "backward",
    ),
    Still(
        196704,
        "the second derivative of logaddexp of numbers that are far from each other is NaN",
        call("vjp.logaddexp", lambda: t(-798.0), lambda: t(1600.0), lambda: t(1.0)),
        lambda: math.isnan(_of_logaddexp()),
        "backward",
    ),
    Still(
        195530,
        "the second derivative of logsigmoid is 0 at 40, though it is even and not 0 at -40",
        call(f"vjp.{F}logsigmoid", lambda: t(40.0, -40.0), lambda: t(1.0, 1.0)),
        lambda: _second(f"{F}logsigmoid", 40.0) == 0 > _second(f"{F}logsigmoid", -40.0),
        "backward",
    ),
)  # fmt: skip


def _layer_norm_is_off() -> bool:
    x = torch.tensor([0.7, 0.0], dtype=torch.float64)
    along = torch.tensor([1.0, 0.5], dtype=torch.float64)
    operator = get(f"{F}layer_norm")

    def derivative(by: float) -> Tensor:
        result = jvp(operator, x + by * along, [2], [along], eps=0.25)
        return result[0]

    tracked = x.clone().requires_grad_()
    result = jvp(operator, tracked, [2], [along], eps=0.25)
    (gradient,) = torch.autograd.grad(result[0], tracked)
    slope = float(derivative(1e-5) - derivative(-1e-5)) / 2e-5
    return abs(float((gradient * along).sum()) - slope) > 0.01 * abs(slope)


def _of_logaddexp() -> float:
    x = torch.tensor(-798.0, dtype=torch.float64, requires_grad=True)
    y, one = torch.tensor(1600.0, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    first, _ = vjp(get("logaddexp"), x, y, one)
    return float(torch.autograd.grad(first, x)[0])


MISSED_DERIVATIVES: dict[str, str] = {
    f"195530 vjp.{F}logsigmoid backward": "4e-18 beside 1 is below what a slope tells"
}
