"""What it costs to judge each operator of a model on its own inputs: CPU time of a pass forward and
backward, plain and looked at.

python benchmarks/models.py            a ResNet-like and a transformer-like model
python benchmarks/models.py memory     the largest memory beside a model with 100 million parameters
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from consistency import Subject, backends, compare_models
from consistency.judge import tolerances
from consistency.training.model_run import ModelRun, quietly
from consistency.training.per_op_check import PerOpCheck
from consistency.training.rule_judge import RuleJudge
from tests.support.compared_models import resnet, transformer

TURNS = 5


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def overhead(name: str, make: Callable[..., Subject], spec: str) -> None:
    """Turns of plain and looked at alternate, so that whatever else the machine does falls on
    both."""
    subject = replace(make(), steps=0)
    backend = backends.resolve(spec)
    plain, looked, judged = [], [], 0
    with quietly() as modules, backend.switches():
        judging = RuleJudge.of(backend, tolerances.load())
        mode = PerOpCheck(backend, modules, judging)
        model_run = ModelRun(subject, lambda key, tensor: None, mode)
        bare = ModelRun(subject, lambda key, tensor: None, Bare())
        for turn in range(TURNS + 1):
            mode.begin(1)
            before = sum(judging.judged.values())
            a, b = cpu_seconds(lambda: list(bare.run())), cpu_seconds(lambda: list(model_run.run()))
            judged = sum(judging.judged.values()) - before
            if turn:
                plain.append(a)
                looked.append(b)
            else:
                first = (b - a) / a
    a, b = statistics.median(plain), statistics.median(looked)
    print(
        f"{name:28} {spec:16} plain {1e3 * a:7.1f} ms   overhead {(b - a) / a:5.2f} ×   the first "
        f"time {first:5.1f} ×   {mode.calls // (TURNS + 1):4} calls, "
        f"{mode.looked_at // (TURNS + 1)} looked at, {judged} judged in full"
    )


class Bare(contextlib.nullcontext[None]):
    """No mode at all."""

    paused = True


def memory() -> None:
    """Training a transformer of 100 million parameters for a step of Adam: what is taken beside the
    model itself."""
    import resource
    import threading

    import psutil

    subject = transformer(words=12_000, width=1024, heads=16, layers=6, length=16, batch=2)
    count = sum(p.numel() for p in subject.model.parameters())
    process = psutil.Process()
    before, most, over = process.memory_info().rss, [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most[0] = max(most[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.process_time()
    report = compare_models(
        subject,
        ["cpu"],
        replicas=2,
        mistakes=False,
        progress=lambda *what: print(*what, most[0] >> 20, flush=True),
    )
    over.set()
    watcher.join()
    peak = max(most[0], 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    print(report)
    print(
        f"{count:,} parameters: {(peak - before) / 1e9:.2f} GB beside the model, "
        f"{time.process_time() - began:.0f} s of CPU time"
    )


def main() -> None:
    torch.set_num_threads(1)
    if "memory" in sys.argv[1:]:
        memory()
        return
    overhead(
        "tiny, to begin with", resnet, "cpu"
    )  # once for what is found out once in a process, such as the declarations
    for spec in ("cpu", "cpu+onednn=off"):
        overhead(
            "half a ResNet, 32 × 32", lambda: resnet(width=32, blocks=2, batch=8, size=32), spec
        )
        overhead(
            "ResNet-18-like, 64 × 64", lambda: resnet(width=64, blocks=2, batch=8, size=64), spec
        )
        overhead(
            "transformer, width 256",
            lambda: transformer(words=1000, width=256, heads=4, layers=4, length=64, batch=8),
            spec,
        )


if __name__ == "__main__":
    main()
