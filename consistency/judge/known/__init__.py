"""Known divergences: entries in files, and predicates on cases.

``predicate`` reads conditions, ``case_facts`` answers them from a recipe (with ``argument_names``
and ``dimensions``); ``entries`` are the values and ``schema`` the files. What became of entries in
a run, and writing new ones: :mod:`consistency.engine.known`.
"""

from .entries import Expectation, Occasion
from .schema import entries_of, json_schema, load

__all__ = ["Expectation", "Occasion", "entries_of", "json_schema", "load"]
