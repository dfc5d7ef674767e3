"""The registry of strategies by name: the built-in ones, and the ones of installed packages. Pure.

A built-in strategy is one line in `_BUILT_IN`. Help texts, `rlab strategies`, `rlab whatif`, tests and the tables of
`docs/strategies.md` read the list from here. A package adds a strategy by an entry point, whose name is the
strategy's name, and whose value is its class or another callable that makes one without arguments:

    [project.entry-points."rlab.strategies"]
    BY_WEIGHT = "weights:AllocateMessageQueueByWeight"

Then `rlab consume --strategy BY_WEIGHT` uses it, and `rlab group show` computes its targets. A package is imported when
its strategy is named, so a broken one stops nothing else. The installed packages are the only input of this
module besides arguments.

RocketMQ has no such list: consumers are given objects, and mqadmin computes no targets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from client.allocate.averagely import AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle
from client.allocate.balanced_sticky import AllocateMessageQueueBalancedSticky
from client.allocate.consistent_hash import AllocateMessageQueueConsistentHash
from client.allocate.strategy import AllocateMessageQueueStrategy, check_strategy, usable
from model.assignment import BROKER_STRATEGY
from model.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "rlab.strategies"
"""Group of the entry points by which packages add strategies."""
_log = logging.getLogger(__name__)


class BuiltInStrategy(NamedTuple):
    """A strategy of this project."""

    make: Callable[[], AllocateMessageQueueStrategy]  # without arguments, so a name stands for the defaults
    shares: str  # how it assigns the queues, for tables
    even: bool = True  # whether loads of members with the same topics differ by at most one in each topic, or in total


_BUILT_IN = (
    BuiltInStrategy(AllocateMessageQueueAveragely, "consecutive blocks of each topic; the default"),
    BuiltInStrategy(AllocateMessageQueueAveragelyByCircle, "each topic dealt out like cards"),
    BuiltInStrategy(AllocateMessageQueueConsistentHash, "by a ring of hashes", even=False),
    BuiltInStrategy(AllocateMessageQueueBalancedSticky, "all topics together, evenly, with few moves"),
)
BUILT_IN_STRATEGIES: dict[str, BuiltInStrategy] = {each.make().name: each for each in _BUILT_IN}
"""By the name that members' heartbeats carry."""


def strategy_names() -> tuple[str, ...]:
    """Names that `strategy_named` knows: those built in, then those of installed packages; nothing is loaded."""
    return (*BUILT_IN_STRATEGIES, *(name for name in sorted(_installed()) if not _is_taken(name)))


def has_strategy(name: str) -> bool:
    """Whether `strategy_named` knows this name; a package that has it may still be broken."""
    return name in BUILT_IN_STRATEGIES or name in strategy_names()


@cache
def strategy_named(name: str) -> AllocateMessageQueueStrategy:
    """The strategy of this name, as it is without arguments.

    It is the same object at each call, because strategies may remember their last result. A consumer in code may use
    other arguments, which the name does not show (CONSISTENT_HASH).

    Raises:
        ConfigError: there is none; or several packages have it; or its package, which is named, is broken.
    """
    packaged = _installed().get(name, [])
    if _is_taken(name):
        for entry in packaged:
            _log.warning("strategy %s of package %s is ignored: the name is built in", name, _package_of(entry))
    if name in BUILT_IN_STRATEGIES:
        return usable("strategy", BUILT_IN_STRATEGIES[name].make())
    if name == BROKER_STRATEGY or not packaged:
        raise ConfigError(f"no strategy {name!r}; there are {', '.join(strategy_names())}")
    if len(packaged) > 1:
        packages = ", ".join(sorted(_package_of(entry) for entry in packaged))
        raise ConfigError(f"strategy {name!r} is in several packages ({packages}): uninstall all but one of them")
    return _loaded(packaged[0])


def check_strategy_name(subject: str, name: str) -> None:
    """Refuse a name that `strategy_named` does not know, by a ConfigError; nothing is loaded."""
    if not has_strategy(name):
        raise ConfigError(f"{subject} must be one of {', '.join(strategy_names())}; got {name!r}")


def _is_taken(name: str) -> bool:
    return name in BUILT_IN_STRATEGIES or name == BROKER_STRATEGY


def _installed() -> dict[str, list[EntryPoint]]:
    """Strategy name -> entry points of installed packages; each package counts once, though it be found twice."""
    # Late: the import and the search take some 40 ms, and most processes name no strategy.
    from importlib.metadata import entry_points  # noqa: PLC0415

    packages_of: dict[str, dict[str, EntryPoint]] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        packages_of.setdefault(entry.name, {}).setdefault(_package_of(entry), entry)
    return {name: list(of_packages.values()) for name, of_packages in packages_of.items()}


def _package_of(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module


def _loaded(entry: EntryPoint) -> AllocateMessageQueueStrategy:
    where = f"strategy {entry.name!r} of package {_package_of(entry)} ({entry.value})"
    try:
        loaded = entry.load()()
        check_strategy("it", loaded)
    # Code of a user: whatever it raises is an error of the package.
    except Exception as error:
        raise ConfigError(f"{where} cannot be used: {error!r}") from error
    if loaded.name != entry.name:
        raise ConfigError(f"{where} calls itself {loaded.name!r}: members would not recognise it; give both one name")
    strategy: AllocateMessageQueueStrategy = loaded
    return strategy


def strategies_named(names: Iterable[str]) -> dict[str, AllocateMessageQueueStrategy]:
    """The strategies of these names that can be computed here; one that cannot is logged if it should be."""
    strategies: dict[str, AllocateMessageQueueStrategy] = {}
    for name in filter(has_strategy, sorted(names)):
        try:
            strategies[name] = strategy_named(name)
        except ConfigError as error:
            _log.warning("no targets of its members: %s", error)
    return strategies
