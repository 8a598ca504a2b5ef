"""torchax's index_select with an index of no dimensions loses the dimension; torch keeps it."""

import torch
import torchax

torchax.enable_globally()
x = torch.tensor([[1.0, 2.0, 3.0]])


def called(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.index_select(x, 0, index)


expected = called(x, torch.tensor(0))
actual = called(x.to("jax"), torch.tensor(0).to("jax")).cpu()
print("torch      ", tuple(expected.shape))
print("JAX        ", tuple(actual.shape))
print("true value  (1, 3)")
assert expected.shape != actual.shape, "they agree"
