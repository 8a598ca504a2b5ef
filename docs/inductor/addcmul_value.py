"""Inductor's addcmul multiplies both tensors before their product with ``value``."""

import torch


def call(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(x, a, b, value=1e-30)


x, a, b = torch.zeros(8), torch.full((8,), 1e30), torch.full((8,), 1e30)
expected, actual = call(x.double(), a.double(), b.double()), torch.compile(call)(x, a, b)
print("eager         ", call(x, a, b).tolist()[:2])
print("inductor      ", actual.tolist()[:2])
print("eager, float64", expected.tolist()[:2])
assert actual.isinf().all(), "they agree"
