"""Judge work units in other processes, here or on other machines.

The ``coordinator`` draws the cases and gives jobs to workers by a ``client``; a worker keeps a
process (``judging_process``) in which the engine judges them. ``membership`` says which workers
take part and which ``environments`` they form, ``serialization`` what is sent,
``crashing_cases`` which case ended a process.
"""
