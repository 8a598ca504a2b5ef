"""Inductor does not compile the gradient of an embedding of one number: an assertion in the writer
of its scatter."""

import torch


def call(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(index, weight)


index, weight = torch.zeros(8, dtype=torch.int64), torch.ones(1, 1, requires_grad=True)
call(index, weight).sum().backward()
print("eager   ", weight.grad)
try:
    torch.compile(call)(index, weight).sum().backward()
except Exception as error:
    print("inductor", type(error).__name__, str(error).strip())
else:
    raise AssertionError("it compiles")
