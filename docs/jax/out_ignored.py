"""torchax computes lgamma, digamma, cumprod and kron, and does not write the result to out."""

import torch
import torchax

torchax.enable_globally()
x = torch.tensor([0.5, 2.5])


def called(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    torch.lgamma(x, out=out)
    return out


expected = called(x, torch.full((2,), 9.0))
actual = called(x.to("jax"), torch.full((2,), 9.0).to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  [log(pi) / 2, log(3 sqrt(pi) / 4)]")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
