"""What ``tools/heap_check.py`` reports: a call that writes past its memory, and no other one."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKED = "glibc.malloc.check=3"
PLANTED = """
import ctypes, sys
from pathlib import Path
import torch
sys.path.insert(0, "tools")
import heap_check

def overrun(operator, dtype, fresh, begun):
    written = torch.empty(64)
    ctypes.memset(written.data_ptr(), 1, 256 + int(dtype))
    del written

heap_check.run = overrun
print([heap_check.ended(None, beyond, 0, Path()) for beyond in ("0", "1", "8", "?")])
"""

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        ctypes.util.find_library("c_malloc_debug") is None,
        reason="glibc's checked allocator is not here",
    ),
]


def output(*arguments: str) -> str:
    environment = {
        **os.environ, "LD_PRELOAD": "libc_malloc_debug.so.0", "GLIBC_TUNABLES": CHECKED,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True,
        encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    return done.stdout


def test_a_byte_beyond_a_block_is_noticed() -> None:
    assert output("-c", PLANTED) == "['', 'SIGABRT', 'SIGABRT', 'raised an error']\n"


def test_healthy_operators_come_to_their_end() -> None:
    told = output("tools/heap_check.py", "abs", "fft.ihfftn", "--dtype", "float32", "--fresh", "40")
    assert told == "2 operators × dtypes, 0 of them ended their process\n"
