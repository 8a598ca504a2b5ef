"""Inductor on the CPU: the gradient of a linear interpolation of images one pixel wide is not
compiled where there is more than one thread (pytorch 2.13)."""

import torch
from torch.nn.functional import interpolate


def widened(x: torch.Tensor) -> torch.Tensor:
    return interpolate(x, size=[1, 7], mode="bilinear", align_corners=True)


torch.set_num_threads(2)
x = torch.arange(20.0).reshape(1, 5, 4, 1).requires_grad_()
widened(x).sum().backward()
print("eager      ", x.grad.flatten()[:4].tolist())
try:
    torch.compile(widened)(x).sum().backward()
except torch._dynamo.exc.BackendCompilerFailed as error:
    print("compiled   ", type(error).__name__, str(error).strip().splitlines()[0])
else:
    raise AssertionError("the gradient is compiled")
