"""Where the work units of a run are judged: in this process (``inline``), in several processes of
this machine (``processes``), or on a Dask cluster (``dask``). All give the same results.

``protocol`` is what an executor is; ``workers`` is what ``processes`` and ``dask`` share.
"""
