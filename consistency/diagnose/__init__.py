"""Evaluation of one case, and diagnosis of a failure: repetition, perturbation, attribution,
bisection, minimization.

Nothing here writes to disk, prints, or plans runs.
"""
