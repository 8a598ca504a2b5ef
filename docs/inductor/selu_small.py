"""Inductor computes selu's exp(x) - 1 as it stands: no digit of a small result is left."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.selu(x)


x = torch.tensor([-1e-9, -1e-6, -0.5, 1.0])
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
