"""torchax inverts A @ A.T whatever upper says, and reads the other triangle of A, too."""

import torch
import torchax

torchax.enable_globally()
x = torch.tensor([[2.0, 1.0], [0.0, 3.0]])


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.cholesky_inverse(x, upper=True)


expected = called(x)
actual = called(x.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [[5/18, -1/18], [-1/18, 1/9]]")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
