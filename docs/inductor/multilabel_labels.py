"""Inductor's multilabel_margin_loss counts labels behind the first -1 (pytorch/pytorch#185464)."""

import torch


def call(x: torch.Tensor) -> torch.Tensor:
    labels = torch.tensor([[-1, 0, 1, 2]])  # -1 ends the list: there is no label
    return torch.nn.functional.multilabel_margin_loss(x, labels, reduction="none")


x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
expected, actual = call(x.double()), torch.compile(call, fullgraph=True)(x)
print("eager         ", call(x).tolist()[:4])
print("inductor      ", actual.tolist()[:4])
print("eager, float64", expected.tolist()[:4])
assert not torch.allclose(expected, actual.double(), rtol=1e-4, atol=0.0, equal_nan=True), (
    "they agree"
)
