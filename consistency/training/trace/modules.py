"""The module of the program that a call belongs to."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.nn.modules import module as hooks

REMEMBERED = 1 << 18  # nodes of the graph whose module is kept for backward
BACKWARD = "backward of "


class Modules:
    """While active, tracks the current module of each thread, and the module that a gradient passes
    through.

    Names are relative to the outermost module called first: ``Linear "encoder.fc1"``. Names under
    other outermost modules begin with their class.
    """

    def __init__(self) -> None:
        self._thread_state = threading.local()
        self._names: dict[
            int, tuple[torch.nn.Module, str]
        ] = {}  # by id: a module need not be hashable
        self._roots = 0
        self._nodes: dict[int, str] = {}
        self._hooks: list[Any] = []

    def __enter__(self) -> Modules:
        # Of 2.4, without keyword arguments; a module that raises is left, too.
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._on_enter),
            hooks.register_module_forward_hook(self._on_exit, always_call=True),
        ]
        return self

    def __exit__(self, *args: object) -> None:
        for handle in self._hooks:
            handle.remove()
        self._names.clear()
        self._nodes.clear()

    def _module_stack(self) -> list[torch.nn.Module]:
        if not hasattr(self._thread_state, "modules"):
            self._thread_state.modules = []
        stack: list[torch.nn.Module] = self._thread_state.modules
        return stack

    def _on_enter(self, module: torch.nn.Module, inputs: Any) -> None:
        inside = self._module_stack()
        if not inside and id(module) not in self._names:
            self._name_modules(module)
        inside.append(module)

    def _on_exit(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        inside = self._module_stack()
        while inside and inside.pop() is not module:
            pass

    def _name_modules(self, root: torch.nn.Module) -> None:
        title = type(root).__name__
        prefix = f"{title}." if self._roots else ""
        self._roots += 1
        for name, module in root.named_modules():
            kind = type(module).__name__
            self._names.setdefault(
                id(module), (module, f'{kind} "{prefix}{name}"' if name else title)
            )

    def name(self) -> str:
        """``Linear "encoder.fc1"``, ``backward of Linear "encoder.fc1"``, or an empty string
        outside of modules."""
        known: Any = torch._C
        inside = self._module_stack()
        if inside:
            known_as = self._names.get(id(inside[-1]))
            name = known_as[1] if known_as is not None else type(inside[-1]).__name__
            if torch.is_grad_enabled():
                self._remember(known._autograd._get_sequence_nr() - 1, name)
            return name
        node: Any = known._current_autograd_node()
        if node is None:
            return ""
        forward = self._nodes.get(node._sequence_nr(), "") if hasattr(node, "_sequence_nr") else ""
        return f"{BACKWARD}{forward or str(node.name()).rpartition(':')[2]}"

    def _remember(self, number: int, name: str) -> None:
        """Map autograd's last node to this call, or to an earlier call that claimed it."""
        if len(self._nodes) >= REMEMBERED:
            self._nodes.clear()
        self._nodes.setdefault(number, name)
