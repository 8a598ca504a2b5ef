"""Inductor's vectorized remainder is a - floor(a / b) b (pytorch/pytorch#198057)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.remainder(x, 3.0)


x = torch.tensor([1e10, -3e12, 1e7, 5.0]).repeat(4)  # 16: whole vectors
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
