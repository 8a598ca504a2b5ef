"""Fingerprints: properties of a backend's arithmetic, measured by black-box probes through ordinary
operators.

``facts`` defines the results, ``query`` how a probe calls a backend, ``collect`` the list of probes
and their order. Each other module answers one group of questions. A probe without a reliable answer
reports that.
"""
