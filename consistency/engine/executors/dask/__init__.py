"""The executor that judges on a Dask cluster: ``client`` sends tasks to Dask's workers, ``tasks``
is what these run."""
