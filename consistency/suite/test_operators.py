"""One item per operator × dtype × direction × backend; the plugin parametrises it from the command line's options."""

from __future__ import annotations

from collections.abc import Callable

from consistency.pytest_plugin import Item


def test_operator(consistency_item: Item, record_property: Callable[[str, object], None]) -> None:
    consistency_item.check(record_property)
