"""Known divergences: entries in files, and predicates on cases.

``predicate`` parses conditions, ``case_facts`` evaluates them on a recipe (with ``argument_names``
and ``dimensions``); ``entries`` are the values and ``schema`` the files. The status of entries in a
run, and proposing new ones: :mod:`consistency.engine.known`.
"""

from .entries import Expectation, Occasion, asks_for_cpu
from .schema import entries_of, json_schema, load

__all__ = ["Expectation", "Occasion", "asks_for_cpu", "entries_of", "json_schema", "load"]
