"""Where units of work are judged: on a Dask cluster."""
