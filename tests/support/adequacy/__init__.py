"""Generic faults that can be planted into any operator's results, and which cases notice them: what
the shipped cases are chosen by (``tools/shipped_cases.py``).

``results``, ``recomputed``: the faults; ``properties``: what a defect may depend on; ``noticing``:
the judge; ``selection``: the choice; ``measure``: how much given cases notice; ``reported``: inputs
of publicly reported bugs; ``page``: what came out.
"""
