"""PyTorch's operators once more, in NumPy: an oracle that shares no code with PyTorch.

`IMPLEMENTATIONS` maps an operator's name to a function with the signature of the public torch callable, on arrays. It
raises NotImplementedError for what it does not offer and leaves its inputs alone (its results may be views of them).
float32 is computed in float32; float16 in float32 and rounded once; integers as PyTorch promotes them. `WIDE` names those
that, fed np.longdouble, compute every step in it: where a long double has 64 bits (x86, but not on Windows), a reference
about 2000 times finer than float64.

Nothing in this package imports torch: an implementation that shared code with what it checks could share its faults.
"""

from consistency.backends.numpy_ops import (  # noqa: F401 (imported for what they register)
    _activations,
    _attention,
    _binary,
    _choosing,
    _classification,
    _convolution,
    _creation,
    _fft,
    _gathering,
    _joining,
    _linalg,
    _linear,
    _losses,
    _margins,
    _normalisation,
    _ordering,
    _pooling,
    _powers,
    _programs,
    _reductions,
    _reordering,
    _representation,
    _resampling,
    _reshaping,
    _running,
    _scattering,
    _searching,
    _special,
    _triangles,
    _unary,
)
from consistency.backends.numpy_ops._table import IMPLEMENTATIONS, WIDE_NAMES

WIDE: frozenset[str] = frozenset(WIDE_NAMES)

__all__ = ["IMPLEMENTATIONS", "WIDE"]
