"""torchax's bicubic grid_sample reflects a position once; torch reflects until it is inside."""

import torch
import torchax

torchax.enable_globally()
x = torch.tensor([[[[0.0], [1.0], [0.0], [0.0], [0.0]]]])
grid = torch.tensor([[[[0.0, 3.2]]]])


def called(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.grid_sample(
        x, grid, mode="bicubic", padding_mode="reflection", align_corners=True
    )


expected = called(x, grid)
actual = called(x.to("jax"), grid.to("jax")).cpu()
print("torch      ", torch.Tensor.tolist(expected))
print("JAX        ", torch.Tensor.tolist(actual))
print("true value  0.352: reflected at 4 and at 0, the position is 0.4")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=1e-6), "they agree"
