"""Inductor refuses gradients of the mean of an empty loss: it divides by 0 when it compiles."""

import torch

x = torch.zeros(0, requires_grad=True)


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.mse_loss(x, torch.zeros(0))


def told(function: object) -> str:
    try:
        function(x).backward()
    except Exception as error:
        return " ".join(str(error).split())[:80]
    return str(x.grad)


expected, actual = told(call), told(torch.compile(call, fullgraph=True))
print("eager   ", expected)
print("inductor", actual)
assert "ZeroDivisionError" in actual, "it compiles"
