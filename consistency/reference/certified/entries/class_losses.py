"""Classification losses."""

from __future__ import annotations

from typing import Any

from .. import class_losses as k
from . import entry


@entry("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    return k.likelihood(self, target, weight, reduction, ignore_index)


@entry("multi_margin_loss")
def multi_margin_loss(
    self: Any, target: Any, p: Any = 1, margin: Any = 1, weight: Any = None, reduction: int = 1
) -> Any:
    return k.multi_margin(self, target, p, margin, weight, reduction)


@entry("multilabel_margin_loss_forward")
def multilabel_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    return k.multilabel_margin(self, target, reduction)
