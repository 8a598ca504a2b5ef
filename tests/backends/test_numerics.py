"""What numbers may depend on is told: how torch was built, switches of the process, variables;
nobody's folders are."""

from __future__ import annotations

import os

import pytest
import torch

from consistency import backends
from consistency.backends import _numerics
from consistency.core.model import Case, Result
from consistency.core.verdict import Verdict
from consistency.report.repro_script import environment

OLDER = """PyTorch built with:
  - GCC 9.3
  - Intel(R) oneAPI Math Kernel Library Version 2022.2-Product Build 20220804 for \
Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.4.2 (Git Hash 1137e04ec0b5251ca2b4400a4fd3c667ce843d67)
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Debug, CUDA_VERSION=12.1, \
CUDNN_VERSION=9.1.0, LAPACK_INFO=mkl,
"""


def test_the_build_is_told_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.__config__, "show", lambda: OLDER)
    monkeypatch.setattr(torch.version, "git_version", "38b96d3399a695e704ed39b60dac733c3fbf20e2")
    assert _numerics.build.__wrapped__() == {
        "torch commit": "38b96d3399a6", "compiler": "GCC 9.3", "built for": "CUDA 12.1",
        "lapack": "mkl", "mkl": "2022.2",
        "onednn version": "3.4.2", "build type": "debug",
    }  # fmt: skip
    monkeypatch.setattr(torch.__config__, "show", lambda: "something else altogether")
    assert _numerics.build.__wrapped__().keys() <= {"torch commit"}


def test_variables_that_change_numbers_are_told_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in list(os.environ):
        if _numerics._VARIABLES.fullmatch(name):
            monkeypatch.delenv(name)
    told = {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "COMPATIBLE",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTORCH_X": "y" * 900,
    }
    others = {
        "PYTORCH_KERNEL_CACHE_PATH": "/home/me",
        "HOME": "/home/me",
        "MKL_VERBOSE": "1",
        "CUDNN_LOGDEST_DBG": "x",
        "AWS_KEY": "k",
    }
    for name, value in (told | others).items():
        monkeypatch.setenv(name, value)
    assert _numerics.variables() == told | {"PYTORCH_X": "y" * 200}
    assert told.keys() <= backends.resolve("cpu").environment().keys()
    assert set(backends.resolve("numpy").environment()) & told.keys() == {"MKL_CBWR"}


def test_switches_of_the_process_are_told() -> None:
    assert _numerics.switches() == {}
    torch.use_deterministic_algorithms(True)
    flushes = torch.set_flush_denormal(True)
    try:
        assert _numerics.switches() == {"deterministic": "True"} | (
            {"flush_denormal": "True"} if flushes else {}
        )
    finally:
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(False)


def test_an_issue_tells_the_build_in_one_row() -> None:
    result = Result(Case("exp", "float32"), "cpu", "forward", Verdict("divergent"), "")
    rows = dict(
        environment.rows(
            result,
            {
                "device": "cpu",
                "compiler": "GCC 9.3",
                "blas": "mkl",
                "mkl": "2022.2",
                "threads": "2",
            },
        )
    )
    assert rows["build"] == "GCC 9.3; blas mkl; mkl 2022.2"
    assert rows["switches"] == "threads 2"
