"""Losses other than classification losses."""

from __future__ import annotations

from typing import Any

from .. import losses as l
from ..activation_functions import softplus
from ..elementwise import mul, neg, sub
from ..functions import square
from . import entry


@entry("mse_loss")
def mse_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    return l.reduced(square(sub(self, target)), reduction)


@entry("huber_loss")
def huber_loss(self: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    return l.reduced(l.huber(self, target, delta), reduction)


@entry("smooth_l1_loss")
def smooth_l1_loss(self: Any, target: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    return l.reduced(l.smooth_l1(self, target, beta), reduction)


@entry("binary_cross_entropy")
def binary_cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    return l.reduced(l.weighted(l.cross_entropy(self, target), weight), reduction)


@entry("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    return l.reduced(
        l.weighted(l.cross_entropy_with_logits(self, target, pos_weight), weight), reduction
    )


@entry("soft_margin_loss")
def soft_margin_loss(self: Any, target: Any, reduction: int = 1) -> Any:
    """log(1 + e^(−t·x))."""
    return l.reduced(softplus(neg(mul(target, self))), reduction)
