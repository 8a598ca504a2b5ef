"""torchax divides the last windows of ceil_mode by a size that is not theirs."""

import torch
import torchax

torchax.enable_globally()
x = torch.ones(1, 1, 4, 4)


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(x, 3, stride=2, ceil_mode=True)


expected = called(x)
actual = called(x.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  1 everywhere: the mean of ones")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
