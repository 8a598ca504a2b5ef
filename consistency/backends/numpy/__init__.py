"""PyTorch's operators once more, in NumPy: an oracle that shares no code with PyTorch.

`IMPLEMENTATIONS` maps an operator's name to a function with the signature of the public torch
callable, on arrays. It raises NotImplementedError for what it does not offer and leaves its inputs
alone (its results may be views of them). float32 is computed in float32; float16 in float32 and
rounded once; integers as PyTorch promotes them. `WIDE` names those that, fed np.longdouble, compute
every step in it: where a long double has 64 bits (x86, but not on Windows), a reference about 2000
times finer than float64.

Nothing in this package imports torch: an implementation that shared code with what it checks could
share its faults.
"""

from consistency.backends.numpy import (  # noqa: F401 (imported for what they register)
    activations,
    attention,
    binary,
    classification,
    convolution,
    creation,
    cumulative,
    diagonals_and_padding,
    distances,
    fft,
    indexing,
    interpolation,
    joining,
    linalg,
    losses,
    matmul,
    normalization,
    permutation,
    pooling,
    powers,
    programs,
    reductions,
    representation,
    reshaping,
    scattering,
    searching,
    sorting,
    special,
    unary,
    where_and_clamp,
)
from consistency.backends.numpy.implementations import IMPLEMENTATIONS, WIDE_NAMES

WIDE: frozenset[str] = frozenset(WIDE_NAMES)

__all__ = ["IMPLEMENTATIONS", "WIDE"]
