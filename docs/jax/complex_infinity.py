"""torchax computes real + 1j * imag: an infinite imaginary part makes the real part NaN."""

import torch
import torchax

torchax.enable_globally()
x, y = torch.tensor([1.0]), torch.tensor([float("inf")])


def called(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(torch.complex(x, y))


expected = called(x, y)
actual = called(x.to("jax"), y.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [[1.0, inf]]")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
