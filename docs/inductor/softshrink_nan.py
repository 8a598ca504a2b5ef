"""Inductor folds x * 0 into 0 (pytorch/pytorch#187580), and with it softshrink of NaN."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softshrink(x)


x = torch.tensor([float("nan"), 1.0, 0.2])
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
