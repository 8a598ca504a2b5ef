"""Inductor's vectorized atanh is log((1 + x) / (1 - x)) / 2 (pytorch/pytorch#198183)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.atanh(x)


x = torch.tensor([1e-9, -1e-7, 1e-4, 0.5]).repeat(4)  # 16: whole vectors
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
