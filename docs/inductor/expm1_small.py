"""Inductor's vectorized expm1 is exp(x) - 1 (pytorch/pytorch#189803): no digit of it is left."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.expm1(x)


x = torch.tensor([1e-10, -3e-9, 1e-4, 1.0]).repeat(4)  # 16: whole vectors
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
