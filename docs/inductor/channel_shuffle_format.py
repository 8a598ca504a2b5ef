"""Inductor's channel_shuffle forgets channels_last (pytorch/pytorch#197109)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.channel_shuffle(x, 3)


x = torch.zeros(2, 6, 4, 5).to(memory_format=torch.channels_last)
expected, actual = call(x), torch.compile(call, fullgraph=True)(x)
print("eager   ", expected.stride())
print("inductor", actual.stride())
assert expected.stride() != actual.stride(), "they agree"
