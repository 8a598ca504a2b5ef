"""Folders that travel: bundles, recordings, corpora, and how a case is found in them. What is read
is not trusted.

Only formats are here; what happens in a run is not known.
"""
