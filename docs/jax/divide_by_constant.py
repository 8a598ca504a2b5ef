"""XLA divides by one number through its rounded reciprocal: errors of averages lean to one side."""

import jax
import jax.numpy as jnp
import numpy as np

x = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
exact = x.astype(np.float64) / 3
found = np.asarray(jax.jit(lambda a: a / jnp.float32(3))(x))
for name, quotient in (("XLA", found), ("numpy", x / np.float32(3))):
    error = (quotient - exact) / exact
    print(f"{name:6} mean relative error {error.mean():+.1e}, largest {np.abs(error).max():.1e}")
assert np.array_equal(found, x * (np.float32(1) / np.float32(3))), "no product with the reciprocal"
