"""Corpora: cases that are replayed, identical everywhere, before a run explores; drawn once,
shared, merged with what was found.

A corpus is a folder as :mod:`consistency.storage.recording` describes it, without outcomes. What
makes two of them the same is the digest of their cases, whatever drew them: recipes are exchanged,
never seeds, as the same seed draws other cases under another Hypothesis. A line of a merged corpus
says why its case is there: ``found``, the kinds of failure that it stands for.
"""
