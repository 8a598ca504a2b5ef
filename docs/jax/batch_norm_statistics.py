"""torchax leaves the running statistics of batch_norm as they were."""

import torch
import torchax

torchax.enable_globally()
x, mean = torch.tensor([[1.0], [3.0]]), torch.zeros(1)


def called(x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    torch.nn.functional.batch_norm(x, mean, torch.ones_like(mean), training=True)
    return mean


expected = called(x, mean.clone())
actual = called(x.to("jax"), mean.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [0.2]: a tenth of the mean 2")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
