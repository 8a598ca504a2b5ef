"""Known divergences in a run, and new ones.

``status`` counts what a run did with each entry; ``predicate_search`` looks for the condition that
tells failing cases from passing ones, ``predicate_evidence`` makes such cases, ``propose`` an entry
of them, and ``write`` appends it to a file.
"""
