"""Inductor's unsafe_split into one part returns its argument, not a new tensor over it."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.unsafe_split(x, 4)[0]


x = torch.zeros(4)
expected, actual = call(x), torch.compile(call, fullgraph=True)(x)
print("eager   ", expected is x)
print("inductor", actual is x)
assert expected is not x, "eager returns it, too"
assert actual is x, "they agree"
