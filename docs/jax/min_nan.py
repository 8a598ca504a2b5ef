"""XLA loses a NaN in minima over a middle dimension on the CPU, where the last one is long."""

import jax
import numpy as np

x = np.ones((2, 4, 513), dtype=np.float32)
x[1, 0, 512] = np.nan
expected, actual = np.min(x, axis=1), np.asarray(jax.numpy.min(x, axis=1))
print("numpy      ", expected[1, 510:].tolist())
print("JAX        ", actual[1, 510:].tolist())
print("true value  1, 1, nan")
assert np.isnan(expected).sum() == 1
assert not np.isnan(actual).any(), "they agree"
