"""Declarations of operators that occur in traces of models and that torch's public functions write
differently: whose rules apply, what is summed, which outputs are meaningful, and if necessary how
to compute them in float64.

Convolution in one operator, normalizations that also return their statistics, softmax, attention
kernels, and the backward operators.
"""

from __future__ import annotations

import functools
from typing import Any

from ....core.model import Case
from ....core.recipe import Literal, TensorRecipe
from ....operators.declare import EXACT
from . import attention, gradients, normalization, recurrent
from .declaration import CONSTANT, KernelDeclaration, as_declared
from .gradients import is_pointwise

__all__ = ["KernelDeclaration", "is_pointwise", "kernel_named", "kernel_of", "kernels"]

# (the declaration, outputs that mean something: a factorization that is only on the way depends on
# the choice of pivots)
_SAME: dict[str, tuple[str, int | None]] = {
    "max_pool2d_with_indices": ("nn.functional.max_pool2d", None),
    "max_pool3d_with_indices": ("nn.functional.max_pool3d", None),
    "_adaptive_avg_pool2d": ("nn.functional.adaptive_avg_pool2d", None),
    "_linalg_eigh": ("linalg.eigh", None), "_linalg_svd": ("linalg.svd", None),
    "_linalg_eigvals": ("linalg.eigvals", None),
    "_linalg_det": ("linalg.det", 1), "_linalg_slogdet": ("linalg.slogdet", 2),
    "_linalg_solve_ex": ("linalg.solve", 1),
}  # fmt: skip


def kernel_of(base: str, case: Case) -> KernelDeclaration | None:
    """The declaration of ``aten::base`` in a case, if there is one."""
    if base == "convolution":
        weight, transposed = (case.args[i] if len(case.args) > i else None for i in (1, 6))
        rank = _dimensions(weight) - 2
        return gradients.convolution(rank, bool(transposed)) if 1 <= rank <= 3 else None
    return kernels().get(base)


def _dimensions(tensor: Any) -> int:
    """The number of dimensions of a literal tensor or a recipe; 0 for any other argument."""
    if isinstance(tensor, TensorRecipe):
        strided = tensor.view[-1] if tensor.view and tensor.view[-1][0] == "as_strided" else ()
        return (len(strided) - 2) // 2 if strided else len(tensor.base)
    return len(tensor.shape) if isinstance(tensor, Literal) else 0


def kernel_named(base: str) -> KernelDeclaration | None:
    """The declaration of ``aten::base`` if it does not depend on the arguments, as that of a
    convolution does."""
    return kernels().get(base)


@functools.cache
def kernels() -> dict[str, KernelDeclaration]:
    """By the operator's name under ``aten::``."""
    result = gradients.kernels() | normalization.kernels() | attention.kernels()
    result |= recurrent.kernels()
    result |= {name: as_declared(*same) for name, same in _SAME.items()}
    result["embedding"] = KernelDeclaration(EXACT, "nn.functional.embedding", traits=CONSTANT)
    return result
