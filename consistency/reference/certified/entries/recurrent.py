"""What torch's recurrent networks are made of beside products and elementary functions."""

from __future__ import annotations

