"""The strategies of the room `client/allocate`, found in its files, whether somebody has registered them or not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import client.allocate
from client.allocate.strategy import AssignedByBroker


def strategy_classes() -> list[type]:
    """Classes with an `allocate`, without the protocols and the stand-in for a broker."""
    modules = [
        importlib.import_module(f"{client.allocate.__name__}.{each.name}")
        for each in pkgutil.iter_modules(client.allocate.__path__)
    ]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind)
        and kind.__module__ == module.__name__
        and callable(getattr(kind, "allocate", None))
        and not getattr(kind, "_is_protocol", False)
        and kind is not AssignedByBroker
    ]
