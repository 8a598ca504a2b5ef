"""torchax's topk returns int32 indices; torch's are int64."""

import torch
import torchax

torchax.enable_globally()
x = torch.tensor([3.0, 1.0, 2.0])


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.topk(x, 2).indices


expected = called(x)
actual = called(x.to("jax")).cpu()
print("torch      ", torch.Tensor.type(expected))
print("JAX        ", torch.Tensor.type(actual))
print("true value  torch.LongTensor")
assert expected.dtype != actual.dtype, "they agree"
