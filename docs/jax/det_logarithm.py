"""JAX's det is sign * exp(log|det|): of log 18^17 = 49.1, a rounding is 49 of the result."""

import jax.numpy as jnp

expected = 18.0**17
actual = float(jnp.linalg.det(18.0 * jnp.eye(17, dtype=jnp.float32)))
print("JAX        ", actual)
print("true value ", expected)
assert abs(actual - expected) > 20 * 2.0**-24 * expected, "they agree"
