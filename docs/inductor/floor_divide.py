"""Inductor's floor_divide is floor(a / b), which rounds up to 10 for 1 // 0.1
(pytorch/pytorch#197895)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.floor_divide(x, torch.tensor([0.1, 0.2, -float("inf"), 2.0]).to(x.dtype))


x = torch.tensor([1.0, 6.0, 1.0, float("inf")])
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
