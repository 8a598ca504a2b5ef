"""The gradient of torch.Tensor.cumprod_ is refused by Inductor, and right up to AOTAutograd."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return x.cumprod_(0)


def gradient(function: object) -> list[float]:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    function(x.clone()).sum().backward()
    return x.grad.tolist()


print("eager    ", gradient(call))
print("aot_eager", gradient(torch.compile(call, backend="aot_eager", fullgraph=True)))
try:
    print("inductor ", gradient(torch.compile(call, fullgraph=True)))
except RuntimeError as error:
    print("inductor ", error)
else:
    raise AssertionError("it does not fail")
