"""Fingerprints: what black-box probes through ordinary operators say of a backend's arithmetic.

``facts`` holds the values, ``asking`` how a probe asks a backend, ``card`` which probes there are
and in which order they are made. Each other module answers one group of questions. A probe that did
not establish its answer says so.
"""
