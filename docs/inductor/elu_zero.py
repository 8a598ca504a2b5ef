"""Inductor's elu loses the sign of zero (pytorch/pytorch#189799)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.elu(x)


x = torch.tensor([-0.0, 0.0, 1.0])
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.equal(expected.signbit(), actual.signbit()), "they agree"
