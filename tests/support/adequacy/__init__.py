"""Generic faults that can be planted into any operator's results, and which cases notice them: what
the shipped cases are chosen by (``tools/shipped_cases.py``)."""
