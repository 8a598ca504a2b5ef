"""The experiments behind docs/judging.md: each prints a small table. Deterministic, one core, under
three minutes altogether.

    python benchmarks/judging_model.py [NAME ...]           # without a name: all of them

growth      what sums of n numbers need of λ, by order of summation and kind of data entropy     the
same where few numbers are distinct: the thresholds of low entropy sigma       errors of healthy
sums in units of the modelled standard deviation statistics  RMS, largest error and signs, of
healthy and of truncating sums: false alarms, detections judged      the judge itself on such matrix
products, and on faults in a row or a tile hull        re-judging from the convex hull, and the
bound from the two maxima apart       how far two healthy answers lie apart, in ulp + G·u·S zeros
what mostly zero results hide patterns    how often scattered errors look clustered second      3σ
from 30 samples, on ill-conditioned systems and on a cancelling formula shares      how much of an
error the planted cause explains, and how much the next best one scaling     float32 error ÷ float64
error of every operator, and the one-sided rule
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests.support has planted faults

from experiments.evidence import second, shares
from experiments.ratios import scaled
from experiments.sums import entropy, growth, sigma
from experiments.verdicts import apart, hull, judged, patterns, statistics, zeros

EXPERIMENTS: dict[str, Callable[[], None]] = {
    "growth": growth, "entropy": entropy, "sigma": sigma, "statistics": statistics,
    "judged": judged, "hull": hull, "apart": apart,
    "zeros": zeros, "patterns": patterns, "second": second, "shares": shares, "scaling": scaled,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    names = parser.parse_args().names or list(EXPERIMENTS)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(EXPERIMENTS)}")
    torch.set_num_threads(1)
    for name in names:
        began = time.monotonic()
        print(f"== {name}", flush=True)
        with np.errstate(all="ignore"):
            EXPERIMENTS[name]()
        print(f"({time.monotonic() - began:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
