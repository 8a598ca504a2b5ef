"""Folders that move between machines: bundles, recordings, corpora, and the lookup of cases in
them. Input is not trusted.

Only formats belong here, nothing about how a run proceeds.
"""
