"""How thorough a run is: cases per operator × dtype, by the name of the profile."""

PROFILES = {"quick": 5, "default": 50, "nightly": 200}
