"""Judge work units in other processes, on this machine or on others.

The ``coordinator`` draws the cases and sends jobs to workers through a ``client``; a worker owns a
process (``judging_process``) in which the engine judges them. ``membership`` tracks the workers and
the ``environments`` they form, ``serialization`` defines the messages, ``crashing_cases`` finds the
case that ended a process.
"""
