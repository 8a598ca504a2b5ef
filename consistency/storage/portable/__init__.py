"""A recording on a machine that has torch and NumPy and nothing else: a zip with cases, the part of
this package that runs them, and one page of instructions.

``recorder`` runs there, and imports nothing but torch, NumPy and the rooms in the zip; ``archive``
writes the zip here.
"""
