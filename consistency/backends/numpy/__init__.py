"""PyTorch's operators implemented in NumPy: an oracle that shares no code with PyTorch.

`IMPLEMENTATIONS` maps an operator's name to a function of arrays with the signature of the public
torch callable. It raises NotImplementedError for what it does not offer and does not modify its
inputs (results may be views of them). float32 is computed in float32; float16 in float32 and
rounded once; integers as PyTorch promotes them. `WIDE` names those that compute every step in
np.longdouble if given it: with 64 bits (x86, but not on Windows), a reference about 2000 times
finer than float64.

Nothing in this package imports torch: shared code could mean shared faults.
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
