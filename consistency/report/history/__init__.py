"""Many runs together: a store over the bundles' files, what changed and when, a site of pages, and
questions asked in SQL."""
