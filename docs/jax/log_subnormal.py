"""XLA takes subnormal inputs for zero on the CPU: log gives -infinity (jax-ml/jax#37762)."""

import jax
import numpy as np

x = np.array([1e-40, 5e-39], dtype=np.float32)
expected, actual = np.log(x), np.asarray(jax.numpy.log(x))
print("numpy      ", expected.tolist())
print("JAX        ", actual.tolist())
print("true value  -92.1034, -88.1914")
assert np.isinf(actual).all(), "they agree"
assert np.isfinite(expected).all()
