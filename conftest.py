"""Settings of the project's own tests: explicit Hypothesis profiles and one torch thread, so that runs repeat themselves."""

from __future__ import annotations

import os

import hypothesis
import pytest
import torch

# Registered by name, because under CI=true Hypothesis would silently choose a profile of its own.
hypothesis.settings.register_profile("pull-request", deadline=None, derandomize=True, database=None, max_examples=60)
hypothesis.settings.register_profile("nightly", deadline=None, derandomize=False, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("CONSISTENCY_HYPOTHESIS_PROFILE", "pull-request"))

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
