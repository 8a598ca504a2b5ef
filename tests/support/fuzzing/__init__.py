"""Fuzzing of every command that reads data from elsewhere: healthy inputs are mutated, and each
mutation is read in a process of its own.

``python -m tests.support.fuzzing --help`` runs it by hand. A mutation is known by its number:
``--only 4711`` repeats it, and ``--keep`` leaves its files.
"""
