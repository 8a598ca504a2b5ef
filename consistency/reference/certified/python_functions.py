"""Functions of torch that are traced as a whole, because their code rounds constants or leaves
autograd before ATen is called.

Examples are attention, whose factor 1/√width torch rounds, and cosine similarity, whose lower
bounds have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from .balls import Unsure
from .nested_nodes import detached, mapped, nodes_in, unknown

if TYPE_CHECKING:
    from .tracing import CallTrace

Formula = Callable[..., Any]
_FORMULAS: dict[Any, Formula] = {}
_NOT_MADE_FOR = (
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    NotImplementedError,
)


def whole(*functions: Any) -> Callable[[Formula], Formula]:
    """Register a formula for functions of torch: it has their parameters and receives nodes in
    place of tensors."""

    def enter(formula: Formula) -> Formula:
        for function in functions:
            assert function not in _FORMULAS, f"{function} is entered twice"
            _FORMULAS[function] = formula
        return formula

    return enter


class WholeCalls(TorchFunctionMode):
    """Intercepts torch's functions before they are decomposed into ATen operators."""

    def __init__(self, trace: CallTrace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        formula = _FORMULAS.get(func) if callable(func) else None
        return (
            func(*args, **(kwargs or {}))
            if formula is None
            else self._compute_formula(func, formula, args, kwargs or {})
        )

    def _compute_formula(self, function: Any, formula: Formula, args: Any, kwargs: Any) -> Any:
        """Run the function outside the trace, and set its results' nodes from the formula."""
        trace = self.trace
        arguments = mapped(
            lambda x: trace.node(x) if isinstance(x, torch.Tensor) else x,
            (tuple(args), dict(kwargs)),
        )
        with torch.utils._python_dispatch._disable_current_modes():
            out = function(*args, **kwargs)
        try:
            computed = formula(*arguments[0], **arguments[1])
        except (Unsure, *_NOT_MADE_FOR) as reason:
            sources, why = nodes_in(arguments), f"{formula.__name__}: {reason}"
            computed = mapped(lambda x: unknown(x, why, sources), out)
        if trace.gradients and not torch.is_grad_enabled():
            trace.blocked = True
            computed = mapped(detached, computed)
        results, values = (
            list(x) if isinstance(x, (list, tuple)) else [x] for x in (out, computed)
        )
        for tensor, value in zip(results, values, strict=True):
            if isinstance(tensor, torch.Tensor):
                trace.write(tensor, value)
        return out
