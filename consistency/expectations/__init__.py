"""Known divergences: entries in files, predicates on cases, what became of them in a run, and writing new ones.

``predicate`` reads conditions, ``facts`` answers them from a recipe (with ``names`` of arguments and ``dimensions``); ``entries``
are the values and ``schema`` the files. ``ledger`` counts what a run did with each entry; ``narrowing`` looks for the
condition that tells failing cases from passing ones, ``trying`` makes such cases, ``writing`` appends an entry to a file.
"""

from .entries import Expectation, Occasion
from .schema import entries_of, json_schema, load

__all__ = ["Expectation", "Occasion", "entries_of", "json_schema", "load"]
