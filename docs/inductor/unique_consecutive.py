"""Inductor refuses unique_consecutive with a dim: its shapes are those of a call without one."""

import torch


def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.unique_consecutive(x, return_inverse=True, dim=1)


x = torch.tensor([[1.0, 1.0, 2.0], [3.0, 3.0, 4.0]])
print("eager   ", [t.tolist() for t in call(x)])
try:
    print("inductor", [t.tolist() for t in torch.compile(call, fullgraph=True)(x)])
except AssertionError as error:
    print("inductor", error)
else:
    raise AssertionError("it does not fail")
