"""Backends whose arithmetic is known, because they are made of it: the truth that fingerprints must
find.

``rounding`` rounds float64 arrays to fewer bits, ``products`` holds backends that multiply matrices
in a chosen way, ``pointwise`` those with other divisions, flush modes and widths.
"""
