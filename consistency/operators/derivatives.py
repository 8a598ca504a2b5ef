"""Derivatives as operators of their own.

``vjp.exp`` is the gradient of ``exp`` against a cotangent, the last argument; its own gradient is a
second derivative, for which torch has formulas of its own. ``jvp.exp`` is the derivative of ``exp``
along the tangents in the last argument, in forward mode.

torch composes both of steps that are the same on every device: a healthy derivative is as precise
as these steps (S ``own steps``). Whether the formulas are right says the relation ``slope``
(:mod:`consistency.reference.invariances.slopes`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_mode

from ..core import dtypes
from ..core.gradients import vector_jacobian_product
from ..core.recipe import Arg, Literal, TensorRecipe
from ..core.zero_tensors import with_memory
from .call_forms import empty, shape_of
from .declare import COMPLEX, Call, Domain, Drawing, ErrorModel, Operator, Sample, call, one
from .variants import declared

FAMILY = "derivatives"
# With second derivatives and derivatives in forward mode, with the one, with the other. Kernels
# whose own sums cancel (norms of rows and groups, attention, in forward mode convolutions and cross
# products) err by more than the steps around them show, some special functions, too. Second
# derivatives by a matrix that is taken for a symmetric or a triangular one are no slopes, and that
# of grid_sample is not proved: whoever errs there would be inconclusive.
BOTH = (
    "reciprocal", "sqrt", "rsqrt", "square", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "tanh", "asinh", "acosh",
    "atanh", "erfc", "erfinv", "sigmoid", "logit", "sinc", "special.log_ndtr", "special.entr",
    "mul", "pow", "atan2", "hypot", "logaddexp", "logaddexp2", "xlogy", "special.xlog1py", "lerp",
    "addcdiv", "var", "matmul", "mm", "bmm", "mv", "dot", "addmm", "addbmm", "baddbmm", "addr",
    "outer", "inner", "kron", "tensordot", "einsum", "nn.functional.linear",
    "nn.functional.unfold", "nn.functional.fold", "nn.functional.local_response_norm",
    "nn.functional.relu", "nn.functional.relu6", "nn.functional.celu", "nn.functional.elu",
    "nn.functional.selu", "nn.functional.hardswish", "nn.functional.hardtanh",
    "nn.functional.hardsigmoid", "nn.functional.leaky_relu", "nn.functional.logsigmoid",
    "nn.functional.prelu", "nn.functional.softplus", "nn.functional.softsign",
    "nn.functional.tanhshrink", "nn.functional.threshold", "nn.functional.avg_pool1d",
    "nn.functional.avg_pool2d", "nn.functional.avg_pool3d", "nn.functional.adaptive_avg_pool1d",
    "nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d",
    "nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss",
    "nn.functional.huber_loss", "nn.functional.binary_cross_entropy",
    "nn.functional.binary_cross_entropy_with_logits", "nn.functional.kl_div",
    "nn.functional.multilabel_soft_margin_loss", "nn.functional.embedding", "linalg.det",
    "linalg.inv", "linalg.solve", "linalg.matrix_exp", "linalg.solve_triangular", "logdet",
    "softmax", "nn.functional.softmin",
)  # fmt: skip
SECOND = (
    "div", "addcmul", "addmv", "nn.functional.hardshrink", "nn.functional.poisson_nll_loss",
    "nn.functional.cross_entropy", "nn.functional.nll_loss", "nn.functional.softshrink",
    "nn.functional.normalize", "linalg.matrix_power", "linalg.vecdot", "erf",
    "cosh", "cumsum", "nn.functional.silu", "nn.functional.mish", "nn.functional.bilinear",
    "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d",
    "nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d",
    "nn.functional.conv_transpose3d", "nn.functional.batch_norm", "nn.functional.instance_norm",
    "nn.functional.interpolate",
)  # fmt: skip
FORWARD = (
    "cosh", "erf", "nn.functional.glu", "nn.functional.mish", "nn.functional.silu",
    "nn.functional.max_pool1d", "nn.functional.max_pool2d", "nn.functional.max_pool3d",
    "log_softmax", "cholesky_inverse", "cholesky_solve", "logcumsumexp", "cumprod",
    "linalg.householder_product", "nn.functional.layer_norm", "logsumexp",
    "nn.functional.lp_pool1d", "nn.functional.lp_pool2d",
)  # fmt: skip
# Their gradients by prediction and target are each other's opposite: against the same cotangent,
# the second derivatives of both would cancel.
OF_A_DIFFERENCE = frozenset({
    "nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss",
    "nn.functional.huber_loss",
})  # fmt: skip
DTYPES = ("float32",)
CONSTANT = frozenset({"constant"})  # what is zero or one number at times has slopes that are
DIRECTION = Domain(-4.0, 4.0)
COMPOSED = ErrorModel(
    "accumulated", "own steps", one, wide_accumulation=False, backward="own steps"
)


def with_gradient(operator: Operator, args: Sequence[Any]) -> Iterator[int]:
    """The places of the arguments whose gradients are computed."""
    chosen, tensors = operator.differentiable_inputs, -1
    chosen = (0,) if operator.name in OF_A_DIFFERENCE else chosen
    for place, value in enumerate(args):
        if not isinstance(value, (torch.Tensor, TensorRecipe, Literal)):
            continue
        tensors += 1
        floating = (
            value.is_floating_point()
            if isinstance(value, torch.Tensor)
            else dtypes.floats(value.dtype) and value.dtype not in COMPLEX
        )
        if floating and (chosen is None or tensors in chosen):
            yield place


def vjp(operator: Operator, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    """The gradients of the result against the last argument, one for each argument that has one.
    They have gradients themselves where an argument requires one."""
    own, cotangent = _not_written(operator, args[:-1]), args[-1]
    again = any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args)
    with torch.enable_grad():
        leaves = []
        for place in with_gradient(operator, args[:-1]):
            if not own[place].requires_grad:
                own[place] = own[place].detach().requires_grad_()
            leaves.append(own[place])
        result = operator(*own, **kwargs)
        gradients = vector_jacobian_product([result], leaves, [cotangent], create_graph=again)
    return tuple(map(with_memory, gradients))


def _not_written(operator: Operator, args: Sequence[Any]) -> list[Any]:
    """The arguments, and copies of those that the operator writes to (running statistics): a
    derivative writes to nothing."""
    own = list(args)
    tensors = [place for place, value in enumerate(own) if isinstance(value, torch.Tensor)]
    for position in operator.mutates:
        if position < len(tensors):
            own[tensors[position]] = own[tensors[position]].clone()
    return own


def jvp(operator: Operator, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The derivative of the result along the tangents in the last argument, one for each argument
    that has a gradient, in forward mode. It has a gradient itself where an argument requires
    one."""
    _load_forward_mode()
    own, tangents = list(args[:-1]), args[-1]
    with forward_mode.dual_level():
        for place, tangent in zip(with_gradient(operator, args[:-1]), tangents, strict=True):
            # torch wants a tangent laid out as its tensor, of which no elements share memory.
            own[place] = _dual(own[place].clone(), tangent)
        result, derivative = _parts(first_result(operator(*own, **kwargs)))
    return torch.zeros_like(result) if derivative is None else with_memory(derivative)


def first_result(result: Any) -> torch.Tensor:
    """What is differentiated: the maxima, where a pooling returns their positions, too."""
    first: torch.Tensor = result[0] if isinstance(result, (tuple, list)) else result
    return first


@functools.cache
def _load_forward_mode() -> None:
    """torch compiles some derivatives with its own deprecated compiler when it is first asked."""
    with warnings.catch_warnings(), forward_mode.dual_level():
        warnings.simplefilter("ignore")
        _dual(torch.zeros(()), torch.zeros(()))


# torch has no types for these two.
_dual: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = forward_mode.make_dual
_parts: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor | None]] = (
    forward_mode.unpack_dual
)


def against_cotangent(operator: Operator) -> Sample:
    """The operator's arguments and a cotangent. Shrinks as the operator's."""

    def sample(d: Drawing) -> Call:
        drawn = operator.sample(d)
        found = shape_of(drawn, operator)
        if found is None:
            raise TypeError(f"the shape of the result of {operator.name} depends on numbers")
        cotangent = d.tensor(found[0], DIRECTION, dtype=found[1])
        return call(*drawn.args, cotangent, **drawn.kwargs)

    return sample


def along_tangents(operator: Operator) -> Sample:
    """The operator's arguments and a list of tangents. Shrinks as the operator's."""

    def sample(d: Drawing) -> Call:
        drawn = operator.sample(d)
        tangents: list[Arg] = [
            d.tensor(tuple(empty(arg).shape), DIRECTION, dtype=arg.dtype)
            for arg in (drawn.args[place] for place in with_gradient(operator, drawn.args))
            if isinstance(arg, (TensorRecipe, Literal))
        ]
        return call(*drawn.args, tangents, **drawn.kwargs)

    return sample


def second(operator: Operator) -> Operator:
    """``vjp.…``: the operator's gradient, whose own gradient is a second derivative."""
    return _derived(
        operator,
        name=f"vjp.{operator.name}",
        sample=against_cotangent(operator),
        function=functools.partial(vjp, operator),
    )


def forward(operator: Operator) -> Operator:
    """``jvp.…``: the operator's derivative along tangents, in forward mode."""
    return _derived(
        operator,
        name=f"jvp.{operator.name}",
        sample=along_tangents(operator),
        function=functools.partial(jvp, operator),
    )


def _derived(operator: Operator, **fields: Any) -> Operator:
    return Operator(
        family=FAMILY,
        error=COMPOSED,
        dtypes=DTYPES,
        traits=operator.traits & CONSTANT,
        whole=operator.whole,
        differentiable_inputs=operator.differentiable_inputs,
        derivative_of=operator,
        unspecified_aliasing="which of its steps copy is autograd's choice",
        **fields,
    )


OPERATORS = [
    *(second(operator) for operator in declared() if operator.name in {*BOTH, *SECOND}),
    *(forward(operator) for operator in declared() if operator.name in {*BOTH, *FORWARD}),
]
