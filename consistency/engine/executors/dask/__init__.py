"""A run on many machines, over Dask distributed.

``front`` draws the cases and hands groups of them to workers (``dispatch``, over ``crew``); a
worker (``worker``) keeps a process (``child``) in which the engine judges them. ``parcels`` is what
goes in between, ``environments`` says which workers are alike.
"""
