"""Names and numbers of the format of recordings, without what reads them."""

from __future__ import annotations

from typing import Literal

FORMAT = 1
CORPUS: Literal["corpus"] = "corpus"
RECORDING: Literal["recording"] = "recording"
FILE = "recording.json"
