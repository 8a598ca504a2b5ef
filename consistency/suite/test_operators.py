"""One item per operator × dtype × direction × backend; the plugin parametrises it from the command
line's options."""

from __future__ import annotations

import pytest

from consistency.pytest_plugin.items import Item


def test_operator(consistency_item: Item, request: pytest.FixtureRequest) -> None:
    # What `record_property` does, which also warns of the JUnit family that is pytest's default; in
    # many projects that is an error.
    properties = request.node.user_properties
    consistency_item.check(lambda name, value: properties.append((name, value)))
