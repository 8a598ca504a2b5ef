"""Inductor cannot compile affine_grid with gradients where the grid is one high or wide."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.affine_grid(x, [1, 1, 3, 1], align_corners=False)


x = torch.ones(1, 2, 3, requires_grad=True)
print("eager   ", call(x).tolist())
print("inductor without gradient", torch.compile(call, fullgraph=True)(x.detach()).tolist())
try:
    print("inductor", torch.compile(call, fullgraph=True)(x).tolist())
except RuntimeError as error:
    print("inductor", str(error).splitlines()[1])
else:
    raise AssertionError("it does not fail")
