"""Known divergences in a run, and new entries.

``status`` counts how results match each entry; ``predicate_search`` finds a condition that
separates failing from passing cases, ``predicate_evidence`` supplies such cases, ``propose`` makes
an entry, and ``write`` appends it to a file.
"""
