"""torchax's transposed convolution with groups takes the weights of another group."""

import torch
import torchax

torchax.enable_globally()
x = torch.arange(1.0, 5.0).reshape(1, 4, 1)
weight = torch.tensor([[[1.0]], [[10.0]], [[100.0]], [[1000.0]]])


def called(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv_transpose1d(x, weight, groups=2)


expected = called(x, weight)
actual = called(x.to("jax"), weight.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [[[21], [4300]]]")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
