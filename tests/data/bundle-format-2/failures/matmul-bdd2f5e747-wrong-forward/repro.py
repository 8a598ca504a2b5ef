# torch.matmul, float32: wrong by 3,363 × what rounding explains on wrong
# Found with torch 2.13.0, Planted 3000, 31.0.2.
# It was found on a backend of your own ('wrong.py:backend'), whose code is not here: this calls torch itself.
# Run: python repro.py [DEVICE]
import sys

import torch

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"


def run(device, dtype):
    x = torch.tensor([0.0, 0.0, 0.0, 0.0, -0.9831493], dtype=torch.float32).to(device, dtype).view(1, 5)
    y = torch.tensor([0.0, 0.0, 0.0, 0.0, -0.9831493], dtype=torch.float32).to(device, dtype).view(5, 1)
    return torch.matmul(x, y)


got = run(device, torch.float32)[0, 0].item()
right = run("cpu", torch.float64)[0, 0].item()
recorded = 0.9665825265943226  # proved in ball arithmetic (Arb, 128 bits): 0.9665825265943226440867874771356582641602
admitted = 2.89e-07  # the largest error that rounding explains there
print(f"at [0, 0]: {device} gives {got!r}; float64 on the CPU {right!r}, recorded {recorded!r}")
print(f"{abs(got - recorded) / admitted:,.3g} times the error that rounding explains")
assert abs(got - recorded) <= admitted, "no rounding explains this"
