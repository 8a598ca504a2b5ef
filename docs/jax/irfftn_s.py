"""torchax forgets the sizes s of irfftn of several dimensions: an odd one is lost."""

import torch
import torchax

torchax.enable_globally()
x = torch.ones(3, 4)


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.irfftn(x.to(torch.complex64), s=(3, 7), dim=(0, 1))


expected = called(x)
actual = called(x.to("jax")).cpu()
print("torch      ", torch.Tensor.size(expected))
print("JAX        ", torch.Tensor.size(actual))
print("true value  a result of [3, 7]")
assert expected.shape != actual.shape, "they agree"
