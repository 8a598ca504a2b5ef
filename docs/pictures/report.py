"""Makes the README's picture of a report from a real run: python docs/pictures/report.py
[OPERATOR…]

Besides the backends of this machine a fourth one takes part that computes products from TF32
inputs, as some GPUs do unless they are told otherwise: 11 bits of each number instead of 24. Needs
a Chromium (chromium or google-chrome on PATH).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import screenshot
import torch

import consistency
from consistency.report import page

PICTURE = Path(__file__).with_name("report.png")
WIDTH, HEIGHT = 1180, 1000
MOST_BYTES = 200_000
FAMILIES = (
    "activation", "attention", "binary", "convolution", "embedding", "indexing", "loss", "matmul",
    "normalization", "pooling",
    "reduction", "rnn", "softmax", "sorting", "unary",
)  # fmt: skip


class Tf32(consistency.Backend):
    name = "cpu-tf32"  # not cpu+tf32, which would say that somebody asked for it

    def environment(self) -> dict[str, str]:
        return {"device": "cpu", "float32 products": "TF32 inputs"}

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        products = operator.error.magnitude == "products"
        return super().call(operator, [shorter(arg) for arg in args] if products else args, kwargs)


def shorter(arg: Any) -> Any:
    """A float32 tensor rounded to 11 bits; gradients pass through."""
    if not isinstance(arg, torch.Tensor) or arg.dtype != torch.float32:
        return arg
    exact = arg.detach().contiguous()
    bits = exact.view(torch.int32)
    rounded = ((bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    rounded = torch.where(rounded.isfinite() & exact.isfinite(), rounded, exact)
    return arg + (rounded - arg.detach()) if arg.requires_grad else rounded


def main() -> None:
    # A relative folder, since the picture shows the command that repeats the worst failure.
    Path("reports").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="reports", prefix="picture-") as scratch:
        out = Path(scratch) / "a-laptop"
        chosen = sys.argv[1:] or [f"family:{name}" for name in FAMILIES]
        consistency.run(
            chosen,
            ["cpu", "cpu+onednn=off", "numpy", Tf32()],
            dtypes=["float32", "float64"],
            examples=5,
            out=out,
        )
        html = page.write(out)
        screenshot.take(html, PICTURE, WIDTH, HEIGHT, MOST_BYTES)


if __name__ == "__main__":
    main()
