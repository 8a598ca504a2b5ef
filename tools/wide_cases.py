"""Writes the wide cases that every run has: calls in which two sizes are large at once (rows and
terms of a product, queries and keys, channels and pixels), and those with one long row or column
beside a few others, once with each of some options; found by trying (some minutes). Those with the
shapes of layers of published models (``model_layers.py``) come first.

    python tools/wide_cases.py [--only 'nn.*']

Kernels choose another path by two sizes together, which cases with one large size do not reach.
A call is kept if it is judged quickly. One that torch's CPU computes wrongly is printed: it is to
be entered as a known divergence, and is kept.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import model_layers
import torch

from consistency import backends, operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.core.trees import map_leaves, tensors_in
from consistency.diagnose.case_runner import judge_case
from consistency.errors import ConsistencyError
from consistency.generate import search
from consistency.generate.large.shipped import DTYPE, WIDE
from consistency.generate.materialize import prepare
from consistency.generate.ordinary_cases import ORDINARY
from consistency.generate.variations import SQUARE, UNCHECKED, with_sizes
from consistency.generate.varied import shapes
from consistency.judge import tolerances
from consistency.operators.declare import Operator
from tests.support.adequacy import ordinary_calls

FAMILIES = frozenset(
    {
        "attention", "convolution", "cumulative", "embedding", "fft", "indexing", "interpolate",
        "linalg", "matmul", "normalization", "pooling", "reduction", "rnn", "softmax", "sorting",
    }
)  # fmt: skip
# Two sizes at once: whole blocks and what is left over of them.
LENGTHS = ((513, 2561), (513, 513), (4097, 17), (257, 129), (64, 65))
# One size alone, beside small ones: beyond 2**20, 2**17 and 2**16, where indices of 16 bits and
# grids of blocks end, with something left over.
LONG_FAMILIES = frozenset(
    {
        "counts", "cumulative", "indexing", "joining", "loss", "masked", "movement", "reduction",
        "softmax", "sorting",
    }
)  # fmt: skip
LONG, BESIDE = ((1 << 20) + 7, (1 << 17) + 3, (1 << 16) + 9), 3
MOST_LONG = 4  # long cases of an operator
QUADRATIC = frozenset({"nn.functional.multilabel_margin_loss"})  # steps for the length of a row
OF_MATRICES = ((257, 3), (129, 65), (65, 64))  # whose decompositions cost the third power
ELEMENTS = 1 << 14, 1 << 22  # of all tensors of a case
SECONDS, MOST_SECONDS = {"matmul": 0.4, "attention": 0.4}, 0.15  # of processor time, of a result
MOST, MOST_OF_OTHERS = {"matmul": 6, "attention": 6, "convolution": 4}, 3  # cases of an operator
LEFT_OUT = frozenset({"matrix_exp", "linalg.matrix_exp", "linalg.eigvals", "linalg.eig"})  # seconds
UNMETA = frozenset({"attention", "linalg", "sorting"})  # with results no larger than their inputs
DRAWN, BASES = 60, 3
COTANGENT = 1 << 20  # where the cotangents lie in the bitstream, beyond all numbers
SEED = 5


def main() -> None:
    """Writes one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*")
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = [
        line
        for line in (WIDE.read_text(encoding="utf-8").splitlines() if WIDE.exists() else [])
        if not fnmatch.fnmatchcase(json.loads(line)["operator"], only)
    ]
    for name, operator in sorted(operators.registry().items()):
        layers = list(model_layers.calls(name, DTYPE))
        chosen = operator.family in FAMILIES | LONG_FAMILIES or layers
        if (
            not fnmatch.fnmatchcase(name, only)
            or not chosen
            or name in LEFT_OUT
            or DTYPE not in operator.dtypes
            or "random" in operator.traits
        ):
            continue
        found = [*layers, *(wide(operator) if operator.family in FAMILIES else [])]
        found += long(operator) if operator.family in LONG_FAMILIES else []
        lines += [json.dumps(c.to_json(), sort_keys=True, separators=(",", ":")) for c in found]
        print(f"{name:50s} {len(found)} of {len(lines)} cases", flush=True)
        WIDE.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


def wide(operator: Operator) -> list[Case]:
    """Some cases of an operator: of every pair of its sizes the widest that is judged in time, and
    some images."""
    return _kept(operator, candidates(operator), MOST.get(operator.family, MOST_OF_OTHERS), form)


def long(operator: Operator) -> list[Case]:
    """Some cases of an operator with one long row or column, each with other options."""
    return _kept(operator, long_candidates(operator), MOST_LONG, _options)


def _kept(
    operator: Operator,
    lists: Iterator[list[Case]],
    most: int,
    form: Callable[[Case], str],
) -> list[Case]:
    """Of each list the first case that is judged in time and tells something, of another form than
    all before it."""
    rules, cpu = tolerances.load(), backends.resolve("cpu")
    kept: list[Case] = []
    forms: set[str] = set()
    for alternatives in lists:
        if len(kept) == most:
            break
        for case in alternatives:
            if not ELEMENTS[0] <= elements(case) <= ELEMENTS[1] or form(case) in forms:
                continue
            began = time.process_time()
            if not _is_moderate(case, operator):
                continue
            results = judge_case(case, operator, [cpu], rules, operator.directions)
            wrong = [result for result in results if result.verdict.diverges]
            for result in wrong:
                print(f"  {result.direction} {result.explanation}\n  {case.line}", flush=True)
            shows = wrong or (results and results[0].verdict.passes)
            seconds = SECONDS.get(operator.family, MOST_SECONDS) * len(results)
            if wrong or (shows and time.process_time() - began <= seconds):
                kept.append(case)
                forms.add(form(case))
                break
    return kept


def candidates(operator: Operator) -> Iterator[list[Case]]:
    """Lists of variations of ordinary calls in which two sizes are large, the widest first: one
    list for each pair of sizes, and one of images."""
    if operator.family in UNCHECKED:
        return
    drawn = search.batch(operator, DTYPE, DRAWN, SEED)
    several = [c for c in drawn if all(map(is_plain, c.tensors)) and len(shapes.sizes_of(c)) > 1]
    bases = [*ordinary_calls.of(operator.name, DTYPE), *sorted(several, key=elements)[-BASES:]]
    for base in (replace(base, cotangent=COTANGENT) for base in bases):
        images = [case for case in shapes.images(base) if elements(case) >= ELEMENTS[0]]
        yield images[len(images) // 2 :]  # with the more channels last
        yield images
        lengths = OF_MATRICES if operator.family == "linalg" else LENGTHS
        # Batches are the smallest sizes of ordinary calls: rows, terms, queries, keys come first.
        for first, second in itertools.permutations(reversed(shapes.sizes_of(base)), 2):
            yield [with_sizes(base, {first: one, second: other}) for one, other in lengths]


def long_candidates(operator: Operator) -> Iterator[list[Case]]:
    """Lists of variations of ordinary calls, one for each of their sizes, which is long beside few
    rows or columns: the longest first."""
    if operator.family in UNCHECKED or operator.name in LEFT_OUT | QUADRATIC:
        return
    drawn = search.batch(operator, DTYPE, DRAWN, SEED)
    several = [c for c in drawn if c.tensors and all(map(is_plain, c.tensors))]
    for base in [*ordinary_calls.of(operator.name, DTYPE), *sorted(several, key=elements)]:
        base = replace(base, cotangent=COTANGENT if base.cotangent else 0)
        sizes = shapes.sizes_of(base)
        small = {size: min(size, BESIDE) for size in sizes}
        for size in reversed(sizes):
            yield [with_sizes(base, small | {size: length}) for length in LONG]


def _options(case: Case) -> str:
    """Two cases of one form have the same arguments beside tensors, long in the same places."""
    others = [a for a in case.args if not isinstance(a, TensorRecipe)]
    tensors = [t for t in case.tensors if isinstance(t, TensorRecipe)]
    long_at = [[n > 1 << 16 for n in t.base] for t in tensors]
    return repr((others, sorted(case.kwargs.items(), key=str), long_at))


def elements(case: Case) -> int:
    """Of all tensors of a case."""
    return sum(math.prod(t.base) for t in case.tensors if isinstance(t, TensorRecipe))


def _is_moderate(case: Case, operator: Operator) -> bool:
    """Whether the call's results, too, are of moderate size: of an outer product they are not."""
    try:
        arguments = prepare(case).build()
        meta = [map_leaves(_on_meta, tree) for tree in (tuple(arguments.args), arguments.kwargs)]
        found = operator(*meta[0], **meta[1])
    except (ConsistencyError, NotImplementedError, RuntimeError, ValueError, IndexError, TypeError):
        return operator.family in UNMETA
    return sum(leaf.numel() for leaf in tensors_in(found)) <= ELEMENTS[1]


def _on_meta(leaf: object) -> object:
    return leaf.detach().to("meta") if isinstance(leaf, torch.Tensor) else leaf


def form(case: Case) -> str:
    """Two cases of one form differ in their numbers only."""
    return repr([[t.base for t in case.tensors if isinstance(t, TensorRecipe)], case.kwargs])


def is_plain(tensor: object) -> bool:
    """Whether a tensor is laid out plainly and holds ordinary numbers, or a matrix that can be
    solved."""
    ordinary = isinstance(tensor, TensorRecipe) and not tensor.view and not tensor.special
    return ordinary and (tensor.dtype == "bool" or tensor.values[0] in {*ORDINARY, *SQUARE})


if __name__ == "__main__":
    main()
