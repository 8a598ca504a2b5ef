"""Inference in three modes. Without gradients torch may take another way:
``TransformerEncoderLayer`` then is one fused operator, with other formulas for the same
mathematics. The results may differ by rounding, and only by that.
"""

from __future__ import annotations

import torch
from torch import nn

from ..training_task import Subject
from .data import SeededBits, Within, built


def network() -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="relu", batch_first=True)


def _model() -> tuple[nn.Module, torch.Tensor]:
    bits = SeededBits(24 << 12)
    x = bits.normal(4, 9, 32)
    return built(network, bits).eval(), x


def subject() -> Subject:
    """Gradients are tracked, as in training."""
    model, x = _model()
    return Subject(
        model=Within(model, torch.enable_grad), inputs=(x,), name="no-grad (with gradients)"
    )


def without_grad() -> Subject:
    """Under ``torch.no_grad()``."""
    model, x = _model()
    return Subject(model=Within(model, torch.no_grad), inputs=(x,), name="no_grad")


def inference() -> Subject:
    """Under ``torch.inference_mode()``."""
    model, x = _model()
    return Subject(model=Within(model, torch.inference_mode), inputs=(x,), name="inference_mode")
