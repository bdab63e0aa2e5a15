"""Puts the faults into a process of vLLM's: each where what it replaces is, once that has been imported."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import Metric

from dropgate.faults import MARKER
from dropgate.faults.catalog import Breaks, Call, patches
from dropgate.faults.switch import FaultSwitch

NOTED_EACH = 100
_installed: dict[str, Breaker] = {}


def install(folder: str) -> None:
    """Patch this process, once; vLLM loads its plugins several times in one process.

    Raises:
        AttributeError: vLLM no longer has what a fault replaces. Later imports raise it too, so that an engine with a
            fault that would do nothing does not boot.

    """
    if folder in _installed:
        return
    breaker = _installed[folder] = Breaker(FaultSwitch(Path(folder)))
    by_module: dict[str, dict[str, dict[str, Breaks]]] = {}
    for patch in patches():
        module, _, attribute = patch.target.partition(":")
        by_module.setdefault(module, {}).setdefault(attribute, {})[patch.fault] = patch.breaks
    for name in [name for name in by_module if name in sys.modules]:
        breaker.patch(sys.modules[name], by_module.pop(name))
    sys.meta_path.insert(0, _AfterImport(by_module, breaker))
    REGISTRY.register(breaker)


def active() -> str:
    """Return the name of the active fault."""
    return next((breaker.fault() for breaker in _installed.values()), "")


class Breaker:
    """Runs the active fault in place of what it replaces, and says on /metrics that it could."""

    def __init__(self, switch: FaultSwitch) -> None:
        self._switch = switch
        self._activation = ""
        self._state: dict[str, Any] = {}
        self._fired = 0

    def patch(self, module: ModuleType, attributes: dict[str, dict[str, Breaks]]) -> None:
        """Wrap each attribute of a module that a fault replaces."""
        for dotted, faults in attributes.items():
            *path, name = dotted.split(".")
            owner = functools.reduce(getattr, path, module)
            original = vars(owner).get(name)
            if not callable(original):
                raise AttributeError(f"{module.__name__}:{dotted} is not there: a fault would do nothing")
            setattr(owner, name, self._wrapped(original, faults))

    def _wrapped(self, original: Callable[..., Any], faults: dict[str, Breaks]) -> Callable[..., Any]:
        @functools.wraps(original)
        def patched(*arguments: Any, **named: Any) -> Any:
            activation = self._switch.activation()
            breaks = faults.get(activation.partition(" ")[0])
            if breaks is None:
                return original(*arguments, **named)
            if activation != self._activation:
                self._activation, self._state, self._fired = activation, {}, 0
            return breaks(Call(original, self._state, self._fire), *arguments, **named)

        return patched

    def fault(self) -> str:
        """Return the name of the active fault."""
        return self._switch.fault()

    def _fire(self) -> None:
        self._fired += 1
        if self._fired <= NOTED_EACH or self._fired % NOTED_EACH == 0:  # a file a step would itself slow the engine
            self._switch.note(self._activation, self._fired)

    def collect(self) -> Iterable[Metric]:
        """Give the series by which the evidence knows a breakable engine."""
        armed = Metric(f"{MARKER}_armed", "This engine can be broken on purpose; which fault is active.", "gauge")
        armed.add_sample(armed.name, {"fault": self._switch.fault()}, 1)
        fired = Metric(f"{MARKER}_fired", "How often the active fault has done something.", "gauge")
        fired.add_sample(fired.name, {"fault": self._switch.fault()}, self._switch.fired())
        return [armed, fired]

    def describe(self) -> Iterable[Metric]:
        """Name no series in advance: none of them can clash with one of vLLM's."""
        return []


class _AfterImport(importlib.abc.MetaPathFinder):
    """Patches a module right after it was imported."""

    def __init__(self, waiting: dict[str, dict[str, dict[str, Breaks]]], breaker: Breaker) -> None:
        self._waiting = waiting
        self._breaker = breaker

    def find_spec(self, fullname: str, *_: Sequence[str] | ModuleType | None) -> ModuleSpec | None:
        """Find a module that is waited for as everybody else does, and load it with the patches."""
        attributes = self._waiting.pop(fullname, None)
        if attributes is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _PatchingLoader(spec.loader, lambda module: self._breaker.patch(module, attributes))
        return spec


class _PatchingLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, patch: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._patch = patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # a module's source, for inspect
