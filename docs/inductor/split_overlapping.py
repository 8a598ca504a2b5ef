"""The gradient of torch.split of a tensor whose elements share memory: torch.compile copies the
cotangent of a part into memory of the part's strides, where one number of several is left."""

import torch


def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.split(x, [2, 1])


def gradient(function: object) -> list[list[float]]:
    x = torch.arange(5.0).unfold(0, 3, 1).detach().requires_grad_()  # [[0, 1, 2], [1, 2, 3], …]
    first, second = function(x)
    cotangents = torch.arange(1.0, 7.0).view(2, 3), torch.arange(7.0, 10.0).view(1, 3)
    (grad,) = torch.autograd.grad((first, second), x, cotangents)
    return grad.tolist()


eager = gradient(call)
compiled = gradient(torch.compile(call, fullgraph=True))
print("eager    ", eager)
print("inductor ", compiled)
assert eager != compiled, "it is right"
