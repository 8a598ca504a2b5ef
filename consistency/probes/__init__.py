"""Black-box questions to a backend: how it computes (``fingerprint``), in which order it adds,
errors against a size.

Answers are values and text; what a run keeps of them is its own matter.
"""
