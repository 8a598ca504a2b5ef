"""The cause of a cell is what its failing cases elect, not that of its worst case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from consistency.report.history.bundle_sources import bundles
from consistency.report.history.snapshot import MatrixCell, Snapshot, snapshot
from consistency.report.history.store import Store
from tests.support.nights import night, row


def failing(
    number: int, cause: str, wrong: int, rho: float, rivals: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """A failing result of tan, as a bundle has it: ``wrong`` elements, explained by ``cause``."""
    found = {"name": cause, "words": f"{cause} words", "share": 1.0} if cause else None
    said = f": {cause} words explains 100%" if cause else ""
    evidence = {"initial_verdict": "divergent", "cause": found, "rivals": list(rivals)}
    return row(
        "tan", f"tan-{number}", "divergent", rho, explanation=f"{rho:g} × budget{said}; and more",
        cause=cause, share=1.0 if cause else 0.0, evidence=evidence,
        metrics={"rho_max": rho, "differing": float(wrong)}, **more,
    )  # fmt: skip


def matrix_of(folder: Path, *rows: dict[str, Any]) -> Snapshot:
    night(folder, 0, rows)
    store = Store()
    store.take(bundles([folder])[0])
    return snapshot(store)


def cell_of(found: Snapshot, dtype: str = "float32") -> MatrixCell:
    (cell,) = (c for c in found.cells.values() if found.groups[c.group].dtype == dtype)
    return cell


def test_the_worst_case_of_one_element_does_not_decide(tmp_path: Path) -> None:
    small = failing(0, "negated", 1, 900.0)
    found = matrix_of(tmp_path, small, *(failing(i, "scaled", 64, 9.0) for i in range(1, 5)))
    cell = cell_of(found)
    assert (cell.cause, cell.agreement) == ("scaled", "4 of 5 cases")
    assert (cell.rho, cell.case_id) == (900.0, "tan-0")
    assert cell.sentence == "900 × budget: and more", "not its own cause, which is not elected"


def test_one_wrong_element_is_no_cause(tmp_path: Path) -> None:
    cell = cell_of(matrix_of(tmp_path, failing(0, "negated", 1, 900.0)))
    assert (cell.cause, cell.agreement) == ("", "")
    assert "negated" not in cell.sentence


def test_a_single_case_with_many_elements_keeps_its_sentence(tmp_path: Path) -> None:
    cell = cell_of(matrix_of(tmp_path, failing(0, "scaled", 64, 9.0)))
    assert (cell.cause, cell.agreement) == ("scaled", "")
    assert cell.sentence == "9 × budget: scaled words explains 100%; and more"


def test_rivals_are_votes(tmp_path: Path) -> None:
    rows = [failing(i, "negated", 4, 9.0, ("transposed",)) for i in range(3)]
    cell = cell_of(matrix_of(tmp_path, *rows, failing(3, "transposed", 64, 8.0)))
    assert (cell.cause, cell.agreement) == ("transposed", "4 of 4 cases")


def test_an_experiment_counts_in_full(tmp_path: Path) -> None:
    cell = cell_of(matrix_of(tmp_path, failing(0, "depends-on-layout", 1, 9.0)))
    assert cell.cause == "depends-on-layout"


def test_all_dtypes_of_an_operator_vote_together(tmp_path: Path) -> None:
    """The few wrong elements of one dtype are explained by what the other one elects, if they
    admit it."""
    found = matrix_of(
        tmp_path,
        *(failing(i, "transposed", 64, 9.0) for i in range(4)),
        failing(4, "negated", 2, 90.0, ("transposed",), dtype="float16"),
        failing(5, "negated", 2, 80.0, dtype="bfloat16"),
    )
    assert cell_of(found).cause == "transposed"
    assert cell_of(found, "float16").cause == "transposed"
    assert cell_of(found, "bfloat16").cause == ""


def test_rows_without_evidence_keep_their_cause(tmp_path: Path) -> None:
    """Recordings, and bundles of earlier versions."""
    told = row("tan", "tan-0", "divergent", 9.0, cause="tf32-inputs", share=0.99)
    assert cell_of(matrix_of(tmp_path, told)).cause == "tf32-inputs"
