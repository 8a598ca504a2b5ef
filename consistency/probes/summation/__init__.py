"""The order in which a call adds: recovered by asking, and replayed to the bit."""
