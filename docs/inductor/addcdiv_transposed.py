"""The compiled gradient of addcdiv_ on transposed memory expects contiguous memory, and fails."""

import torch


def call(x: torch.Tensor, numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    return x.addcdiv_(numerator, denominator, value=2.5)


def gradient(function: object) -> list[float]:
    x = torch.ones(3, 2, 4).transpose(1, 2).requires_grad_()
    numbers = [torch.tensor(number, requires_grad=True) for number in (0.5, 2.0)]
    function(x.clone(), *numbers).sum().backward()
    return [number.grad.item() for number in numbers]


print("eager   ", gradient(call))
try:
    print("inductor", gradient(torch.compile(call, fullgraph=True)))
except AssertionError as error:
    print("inductor", str(error).splitlines()[0])
else:
    raise AssertionError("it does not fail")
