"""Large cases: small ones whose tensors are repeated along one dimension, up to the sizes at which
kernels change. The small case says what every repetition must give."""
