"""torchax multiplies the input by beta = 0; torch leaves it out, as BLAS does."""

import torch
import torchax

torchax.enable_globally()
x = torch.ones(2, 2)


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.addmm(x * float("nan"), x, x, beta=0)


expected = called(x)
actual = called(x.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [[2, 2], [2, 2]]")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
