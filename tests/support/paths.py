"""Where the checkout keeps what tests read."""

from __future__ import annotations

from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
DATA = ROOT / "tests" / "data"
SITE_PACKAGES = str(Path(torch.__file__).parent.parent)
