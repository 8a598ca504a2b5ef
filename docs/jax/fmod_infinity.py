"""torchax computes x - y trunc(x / y): the remainder beside infinity is NaN, not x."""

import torch
import torchax

torchax.enable_globally()
x = torch.tensor([1.5, -2.0])


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.fmod(x, float("inf"))


expected = called(x)
actual = called(x.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [1.5, -2.0]")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
