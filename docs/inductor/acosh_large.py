"""Inductor's acosh on the CPU squares its argument: infinite from 1.8e19 on."""

import torch


def called(x: torch.Tensor) -> torch.Tensor:
    return torch.acosh(x)


x = torch.full((64,), 1e20)
expected = called(x)[0].item()
actual = torch.compile(called)(x)[0].item()
print("eager      ", expected)
print("Inductor   ", actual)
print("true value  46.7448")
assert abs(expected - 46.7448) < 1e-3
assert abs(actual - expected) > 1.0, "they agree"
