"""With dynamic shapes Inductor drops the alpha of a sum whose second operand is a number."""

import torch


def call(x: torch.Tensor, other: float, alpha: float) -> torch.Tensor:
    return torch.add(x, other, alpha=alpha)


x = torch.zeros(3)
expected = call(x, 2.5, 0.5)
actual = torch.compile(call, fullgraph=True, dynamic=True)(x, 2.5, 0.5)
print("eager   ", expected.tolist())
print("inductor", actual.tolist())
assert not torch.equal(expected, actual), "they agree"
