"""Inductor's fractional_max_pool3d takes the random samples of depth for those of width."""

import torch

samples = torch.tensor([[[0.05, 0.5, 0.95]]])  # where windows begin, by depth, height and width


def call(x: torch.Tensor) -> torch.Tensor:
    pool = torch.nn.functional.fractional_max_pool3d
    return pool(x, 1, output_size=(4, 4, 4), _random_samples=samples)


x = torch.arange(729.0).reshape(1, 1, 9, 9, 9)
expected, actual = call(x), torch.compile(call, fullgraph=True)(x)
for name, result in (("eager   ", expected), ("inductor", actual)):
    depths, columns = result[0, 0, :, 0, 0] / 81, result[0, 0, 0, 0, :]
    print(name, "depths", depths.tolist(), "columns", columns.tolist())
assert not torch.equal(expected, actual), "they agree"
