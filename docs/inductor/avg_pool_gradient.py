"""Compiled, the gradient of avg_pool with ceil_mode divides what hangs over by the whole kernel."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool1d(x, 3, ceil_mode=True)  # the second window has one element


def gradient(function: object, x: torch.Tensor) -> list[float]:
    x = x.clone().requires_grad_()
    function(x).sum().backward()
    return x.grad.flatten().tolist()


x = torch.zeros(1, 1, 4)
expected, actual = gradient(call, x), gradient(torch.compile(call, fullgraph=True), x)
print("eager   ", expected)  # a third each, and 1
print("inductor", actual)
assert expected != actual, "they agree"
