"""Small models in which two runs diverge, or only seem to: ``consistency model examples:NAME``.

One module each, written to be read; this one lists them. Data and weights come from the bitstream,
so every machine starts from the same bits.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from ..training_task import Subject
    from ..variants import Variant

PREFIX = "examples:"


@dataclass(frozen=True, slots=True)
class Example:
    """A built-in example: its name, its topic in one line, and the location of its factory
    (``module:function`` in this package).

    ``wrong``: it is wrong on purpose. ``variants``: other factories that should give the same
    numbers as the first.
    """

    name: str
    line: str
    place: str
    wrong: bool = False
    variants: tuple[str, ...] = ()

    def __call__(self) -> Subject:
        """A new model with its data."""
        subject: Subject = _call_factory(self.place)
        return subject

    def others(self) -> list[Subject | Variant]:
        """The other variants, each with a name."""
        return [_call_factory(place) for place in self.variants]


def _call_factory(place: str) -> Any:
    module, _, function = place.partition(":")
    return getattr(importlib.import_module(f"{__name__}.{module}"), function)()


_ALL = (
    Example("linear-regression", "SGD, 100 epochs: what one rounding has done the next step undoes",
    "linear_regression:subject"),
    Example("mlp", "10-20-1 with ReLU and Adam, 100 epochs: two things that amplify rounding",
    "mlp:subject"),
    Example("recurrent", "linear + tanh fed back 10 times, with gradients", "recurrent:subject"),
    Example("batch-norm", "training, then evaluation with the running statistics",
    "batch_norm:subject"),
    Example("batch-norm-eval-forgotten", "predictions of a model that still trains",
    "batch_norm:eval_forgotten", wrong=True),
    Example("batch-norm-stale-statistics", "running statistics that nobody updates",
    "batch_norm:stale_statistics", wrong=True),
    Example("dropout", "training with the same masks everywhere", "dropout:subject"),
    Example("dropout-eval", "evaluation: dropout does nothing", "dropout:evaluated"),
    Example("dropout-own-masks", "masks from torch's global generator", "dropout:own_masks",
    wrong=True),
    Example("cnn", "convolutions, group norm, pooling", "cnn:subject"),
    Example("lstm", "two layers of LSTM over an embedding", "lstm:subject"),
    Example("transformer", "an encoder block with attention", "transformer:subject"),
    Example("autocast-bfloat16", "mixed precision with 8 bits", "mixed_precision:bfloat16",
    variants=("mixed_precision:plain",)),
    Example("autocast-float16", "mixed precision with 11 bits", "mixed_precision:float16",
    variants=("mixed_precision:plain",)),
    Example("autocast-layer-norm", "a gradient that torch sums up in 8 bits",
    "mixed_precision:layer_norm", wrong=True),
    Example("mixed-dtypes", "float32 layers around a part in float64",
    "mixed_precision:wide_middle"),
    Example("in-place", "in place against out of place", "in_place:subject",
    variants=("in_place:otherwise",)),
    Example(
        "no-grad", "inference with gradients, no_grad and inference_mode", "no_grad:subject",
        variants=("no_grad:without_grad", "no_grad:inference"),
    ),
    Example(
        "deterministic", "sums whose order may change; deterministic flags on and off",
        "deterministic:subject",
        variants=("deterministic:flagged",),
    ),
    Example("drift", "float32 beside float64 for 200 steps", "drift:subject"),
    Example("chaos", "a recurrence that stretches half an ulp until no digit is left",
    "drift:chaos"),
)  # fmt: skip
EXAMPLES = {example.name: example for example in _ALL}


def example(name: str) -> Example:
    """The example called ``name``, with or without ``examples:``. Raises UsageError."""
    plain = name.removeprefix(PREFIX)
    if plain not in EXAMPLES:
        hint = did_you_mean(plain, EXAMPLES)
        raise UsageError(
            f"there is no example "
            f"{plain!r:.60}{hint or '; `consistency model examples` lists them'}"
        )
    return EXAMPLES[plain]


def listing() -> str:
    """All examples, one line each."""
    width = max(map(len, EXAMPLES))
    return "\n".join(
        f"{PREFIX}{e.name:<{width}}  {e.line}{' (wrong on purpose)' if e.wrong else ''}"
        for e in _ALL
    )
