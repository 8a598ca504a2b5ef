"""A compiled operator in place saves the input that it overwrites (pytorch/pytorch#185497)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return x.sin_()


def gradient(function: object) -> list[float]:
    x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    function(x.clone()).sum().backward()
    return x.grad.tolist()


print("eager   ", gradient(call))
try:
    print("inductor", gradient(torch.compile(call, fullgraph=True)))
except RuntimeError as error:
    print("inductor", error)
else:
    raise AssertionError("it does not fail")
