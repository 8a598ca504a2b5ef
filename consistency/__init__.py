"""consistency: does the same PyTorch operator give the same numbers on every backend?

The public interface; everything is imported on first use, so that ``import consistency`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .api import assert_consistent, compare, run, save
    from .backends.base import Backend, TorchBackend
    from .engine import Run
    from .errors import (
        BundleError,
        ConfigurationError,
        ConsistencyError,
        Divergence,
        RecipeError,
        Unsupported,
        UsageError,
    )
    from .model import Case, Comparison, Outcome, Result, Verdict
    from .models.comparing import assert_models_match, compare_models
    from .models.findings import ModelReport
    from .models.subject import Subject
    from .operators.declare import Operator
    from .recording.api import judge_recordings, record
    from .tolerances import Rule
    from .watching.watch import watch

_HOME = {
    "run": "api", "assert_consistent": "api", "compare": "api", "save": "api", "Run": "engine",
    "record": "recording.api", "judge_recordings": "recording.api", "watch": "watching.watch",
    "compare_models": "models.comparing", "assert_models_match": "models.comparing", "ModelReport": "models.findings",
    "Subject": "models.subject",
    "Backend": "backends.base", "TorchBackend": "backends.base", "Operator": "operators.declare", "Rule": "tolerances",
    "Case": "model", "Comparison": "model", "Outcome": "model", "Result": "model", "Verdict": "model",
    "BundleError": "errors", "ConfigurationError": "errors", "ConsistencyError": "errors", "Divergence": "errors",
    "RecipeError": "errors", "Unsupported": "errors", "UsageError": "errors",
}  # fmt: skip

__all__ = [
    "Backend",
    "BundleError",
    "Case",
    "Comparison",
    "ConfigurationError",
    "ConsistencyError",
    "Divergence",
    "ModelReport",
    "Operator",
    "Outcome",
    "RecipeError",
    "Result",
    "Rule",
    "Run",
    "Subject",
    "TorchBackend",
    "Unsupported",
    "UsageError",
    "Verdict",
    "__version__",
    "assert_consistent",
    "assert_models_match",
    "compare",
    "compare_models",
    "judge_recordings",
    "record",
    "run",
    "save",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'consistency' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    # A submodule may bear the name of a function (compare): what was asked for wins.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
