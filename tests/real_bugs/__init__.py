"""Publicly reported wrong results as backends: after how many cases a run notices each."""

from __future__ import annotations

# Each module declares its bugs when it is imported.
from . import (  # noqa: F401
    accumulations,
    arguments,
    contract,
    eighth_list,
    eighth_list_sizes,
    eleventh_list,
    eleventh_list_reductions,
    fifteenth_list,
    fifteenth_list_reductions,
    fifth_list,
    fifth_list_sizes,
    fourteenth_list,
    fourteenth_list_reductions,
    gradients,
    held_out,
    held_out_frameworks,
    held_out_frameworks_gradients,
    held_out_frameworks_products,
    held_out_frameworks_rows,
    held_out_frameworks_windows,
    held_out_later,
    integers,
    layouts,
    ninth_list,
    ninth_list_reductions,
    ninth_list_sizes,
    seventh_list,
    seventh_list_sizes,
    sixteenth_list,
    sixteenth_list_reductions,
    sixth_list,
    sixth_list_sizes,
    sizes,
    special_values,
    tenth_list,
    tenth_list_reductions,
    tenth_list_sizes,
    third_arguments,
    third_layouts,
    third_sizes,
    thirteenth_list,
    thirteenth_list_reductions,
    twelfth_list,
    twelfth_list_reductions,
)
from .model import BUGS, Bug

__all__ = ["BUGS", "Bug"]
