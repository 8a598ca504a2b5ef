"""The function :func:`run`: cases are drawn, run on backends, and judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..backends.base import Backend
from ..core.model import DIRECTIONS
from ..engine import engine
from ..engine.events import Handler
from ..engine.fingerprints import Fingerprints
from ..engine.resume import earlier_results
from ..errors import OutputError
from ..judge.tolerances import Tolerances
from ..operators.declare import Operator
from ..report import bundles
from ..storage.provenance import is_own_folder


def run(
    operators: Iterable[str | Operator] | None = None,
    backends: Iterable[str | Backend] | None = None,
    dtypes: Iterable[str] | None = None,
    directions: Iterable[str] = DIRECTIONS,
    examples: int = 50,
    seed: int = 0,
    time_budget: float | None = None,
    tolerances: str | Path | Tolerances | None = None,
    out: str | Path | None = None,
    *,
    handlers: Sequence[Handler] = (),
    resume: bool = False,
    reference: str = "spot",
    source: str = "drawn",
    case_timeout: float = 30.0,
    corpus: str | Path | None = None,
    expectations: Iterable[str | Path] | str | Path = (),
    jobs: int | None = None,
    exhaustive: bool | None = None,
    shipped: bool = True,
    fills: int = 1,
) -> engine.Run:
    """Draw cases of ``operators``, run them on ``backends``, and judge every result against
    float64.

    ``operators``: names, globs (``"nn.functional.*"``), ``"family:pooling"`` or Operator objects;
    None for all. ``backends``: specs or Backend objects; None for every one available here.
    ``dtypes``: None for each operator's own. ``examples``: fresh cases per operator × dtype.
    ``time_budget``: seconds, or None. ``tolerances``: a tolerances.yaml. ``out``: a folder for the
    bundle; with ``resume`` an interrupted bundle there is completed. ``handlers`` are called with
    every event. ``reference``: what results are judged against: ``"float64"`` on the CPU, that with
    some elements proved (``"spot"``), or all (``"verified"``). ``source``: ``"opinfo"`` takes the
    samples of PyTorch's own operator database in place of drawn cases. ``case_timeout``: seconds
    that one case may take on a backend in a process of its own (accelerators, ``+isolated``,
    ``@PYTHON``, ``+env:NAME=VALUE``). ``corpus``: a folder whose cases are replayed; others are
    drawn after that only if there is a time budget. ``expectations``: a file of known divergences,
    or several, beside those that ``tolerances`` lists. ``jobs``: how many processes of this machine
    judge, None for this one; their backends must be named by specs. ``exhaustive``: beside the
    examples, every number of 16 bits for functions of single elements (None), also every float32
    and pairs of chosen numbers (True), or neither (False). ``shipped``: whether each operator ×
    dtype begins with the cases that come with the package, which are not counted as examples.
    ``fills``: with how many sets of numbers each of these cases is judged, which costs a backend
    that compiles no further graph.

    Raises UsageError, ConfigurationError, BundleError or OutputError with one clear line; the last
    one, where the bundle cannot be written, has the ``results`` judged until then.
    """
    replay = None
    if corpus is not None:
        from ..storage.corpus.reading import load

        replay = load(Path(corpus))
    config = engine.configure(
        operators, backends, dtypes, directions, examples, seed, time_budget, tolerances,
        reference=reference, source=source,
        case_timeout=case_timeout, expectations=expectations, corpus=replay,
        explore=replay is None or time_budget is not None, exhaustive=exhaustive,
        shipped=shipped, fills=fills,
    )  # fmt: skip
    executor: engine.Executor | None = None
    if jobs is not None:
        from ..engine.executors.early_processes import check_processes
        from ..engine.executors.processes import ProcessExecutor

        check_processes(jobs)
        files = [expectations] if isinstance(expectations, (str, Path)) else list(expectations)
        executor = ProcessExecutor(config, jobs, expectations=[str(file) for file in files])
    collect = engine.Collect()
    written: list[Handler] = []
    resumed = None
    folder = Path(out) if out is not None else None
    with contextlib.ExitStack() as stack:
        if folder is not None:
            from ..engine.known import status
            from ..report import page

            resumed = earlier_results(folder) if resume else None
            own = corpus is None or is_own_folder(Path(corpus))
            writer = bundles.writer(folder, resume=resume, own=own)
            stack.callback(writer.close)
            written = [
                writer, status.StatusWriter(folder), Fingerprints(folder), page.after(folder),
            ]  # fmt: skip
        # An exception in the caller's handler loses no result: the writer already has it.
        try:
            engine.drive(config, [collect, *written, *handlers], resumed, executor)
        except OutputError as error:
            results = tuple(collect.results)
            raise error.then("complete it with resume=True", results) from None
    return engine.Run(
        tuple(collect.results), config, collect.seconds, folder, tuple(collect.scalings)
    )
