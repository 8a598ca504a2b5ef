"""Backends in processes of their own: what a worker is told and answers (``wire``), both of its ends (``child``, ``process``),

and the backend that stands for it in the run (``isolated``). Everything that ``child`` imports needs torch and numpy only.
"""
