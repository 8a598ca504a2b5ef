"""Backends in processes of their own.

``codec`` is what a worker is told and answers, in frames (``framing``); ``worker_main`` and
``process`` are its two ends, and ``backend`` stands for it in the run. Everything that
``worker_main`` imports needs torch and numpy only.
"""
