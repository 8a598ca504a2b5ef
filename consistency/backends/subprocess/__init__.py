"""Backends in their own processes.

``codec`` defines the messages, sent in frames (``framing``); ``worker_main`` and ``process`` are
the two ends, and ``backend`` represents the worker in the run. Everything that ``worker_main``
imports needs torch and NumPy only.
"""
