"""Which module of the program a call belongs to."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.nn.modules import module as hooks

REMEMBERED = 1 << 18  # nodes of the graph whose module is remembered, for the way back
BACKWARD = "backward of "


class Modules:
    """While it is entered, knows in which module each thread is, and through which one a gradient
    goes.

    Names are those of the first module around that was called: ``Linear "encoder.fc1"``. A second
    such module's names begin with its class.
    """

    def __init__(self) -> None:
        self._here = threading.local()
        self._names: dict[
            int, tuple[torch.nn.Module, str]
        ] = {}  # by id: a module need not be hashable
        self._roots = 0
        self._nodes: dict[int, str] = {}
        self._hooks: list[Any] = []

    def __enter__(self) -> Modules:
        # Of 2.4, without keyword arguments; a module that raises is left, too.
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._into),
            hooks.register_module_forward_hook(self._out_of, always_call=True),
        ]
        return self

    def __exit__(self, *args: object) -> None:
        for handle in self._hooks:
            handle.remove()
        self._names.clear()
        self._nodes.clear()

    def _inside(self) -> list[torch.nn.Module]:
        if not hasattr(self._here, "modules"):
            self._here.modules = []
        found: list[torch.nn.Module] = self._here.modules
        return found

    def _into(self, module: torch.nn.Module, inputs: Any) -> None:
        inside = self._inside()
        if not inside and id(module) not in self._names:
            self._learn(module)
        inside.append(module)

    def _out_of(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        inside = self._inside()
        while inside and inside.pop() is not module:
            pass

    def _learn(self, root: torch.nn.Module) -> None:
        title = type(root).__name__
        prefix = f"{title}." if self._roots else ""
        self._roots += 1
        for name, module in root.named_modules():
            kind = type(module).__name__
            self._names.setdefault(
                id(module), (module, f'{kind} "{prefix}{name}"' if name else title)
            )

    def name(self) -> str:
        """``Linear "encoder.fc1"``, ``backward of Linear "encoder.fc1"``, or nothing outside of
        every module."""
        known: Any = torch._C
        inside = self._inside()
        if inside:
            known_as = self._names.get(id(inside[-1]))
            found = known_as[1] if known_as is not None else type(inside[-1]).__name__
            if torch.is_grad_enabled():
                self._remember(known._autograd._get_sequence_nr() - 1, found)
            return found
        node: Any = known._current_autograd_node()
        if node is None:
            return ""
        forward = self._nodes.get(node._sequence_nr(), "") if hasattr(node, "_sequence_nr") else ""
        return f"{BACKWARD}{forward or str(node.name()).rpartition(':')[2]}"

    def _remember(self, number: int, name: str) -> None:
        """The node that autograd made last was made for this call, or for one before it, which then
        has claimed it."""
        if len(self._nodes) >= REMEMBERED:
            self._nodes.clear()
        self._nodes.setdefault(number, name)
