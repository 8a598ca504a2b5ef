"""XLA compares subnormal numbers as zero on the CPU (jax-ml/jax#16200: works as intended)."""

import jax
import numpy as np

x = np.array([1e-40, -1e-40], dtype=np.float32)
expected, actual = x != 0, np.asarray(jax.numpy.array(x) != 0)
print("numpy      ", expected.tolist())
print("JAX        ", actual.tolist())
print("true value  True, True")
assert not actual.any(), "they agree"
assert expected.all()
