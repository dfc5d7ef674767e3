"""Ranks what a what-if has tried, and says in a sentence what to choose and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from model.errors import ConfigError
from pipeline.replay.costs import Costs

if TYPE_CHECKING:
    from pipeline.replay.job import Tried

SORTS = {
    "all": "",
    "moves": "moves",
    "orphan": "orphan_s",
    "silent": "silent_s",
    "duplicates": "duplicates",
    "lag": "lag_p99",
    "imbalance": "imbalance",
}
"""Name in `--sort` -> cost; `all` is the sum of the ranks in every cost."""
_SAID = {
    "moves": ("moves", "{:,.0f}"),
    "orphan_s": ("queue-seconds without an owner", "{:,.1f}"),
    "silent_s": ("queue-seconds with a dead owner", "{:,.1f}"),
    "duplicates": ("duplicates", "{:,.0f}"),
    "lag_p99": ("lag p99", "{:,.0f}"),
    "imbalance": ("imbalance", "{:.2f}"),
}


def check_sort(name: str) -> str:
    """Return a name of `SORTS`.

    Raises:
        ConfigError: it is none.
    """
    if name not in SORTS:
        raise ConfigError(f"--sort must be one of {', '.join(SORTS)}; got {name}")
    return name


def ranked(tried: Iterable[Tried], sort: str = "all") -> list[Tried]:
    """Configurations, the best first; of those with equal costs only the first is kept."""
    different = list({each.costs: each for each in reversed(list(tried))}.values())
    cost = SORTS[sort]
    return sorted(
        different,
        key=lambda each: (getattr(each.costs, cost) if cost else 0, _ranks(each, different), each.costs),
    )


def counts(tried: Sequence[Tried], front: Sequence[bool]) -> str:
    """The number of configurations, and of those on the Pareto front, for every place that shows them.

    Equal costs are one point of the picture and one row of the table, so both numbers of the front are named.
    """
    costs = [each.costs for each, is_on_front in zip(tried, front, strict=True) if is_on_front]
    return f"{len(tried)} configurations; Pareto front: {len(costs)}, with {len(set(costs))} different costs"


def _ranks(one: Tried, others: Sequence[Tried]) -> int:
    """Number of costs in which another configuration is better, summed: lowest for one that is good in every cost."""
    return sum(a < b for other in others for a, b in zip(other.costs, one.costs, strict=True))


def advice(best: Tried, replayed: Tried, sort: str = "all") -> str:
    """What to choose, and what it wins and loses against the rules of the trace, which `replayed` has."""
    better, worse = _differences(best.costs, replayed.costs), _differences(replayed.costs, best.costs)
    by = (
        "its ranks in all costs together are the best"
        if sort == "all"
        else f"it is the best in {_SAID[SORTS[sort]][0]}"
    )
    if not better:
        return "Keep the rules of the trace: what is best of all that was tried has less of no cost."
    wins = _told(best.costs, replayed.costs, better)
    loses = f"; it costs {_told(best.costs, replayed.costs, worse)}" if worse else "; it costs nothing"
    return f"Choose {named(best)}, because {by}: {wins} under the rules of the trace{loses}."


def named(tried: Tried) -> str:
    """The rules of a configuration in words."""
    rules = tried.rules
    return (
        f"{rules.strategy} with a rebalance interval of {rules.interval_ms / 1000:g} s, a session timeout of "
        f"{rules.timeout_ms / 1000:g} s, handover {rules.handover.value} and "
        f"{'' if rules.notify else 'no '}notifications"
    )


def _differences(one: Costs, other: Costs) -> list[str]:
    """Costs that are printed as less in one than in the other."""
    return [name for name in Costs._fields if getattr(one, name) < getattr(other, name) and _differ(name, one, other)]


def _differ(name: str, one: Costs, other: Costs) -> bool:
    form = _SAID[name][1]
    return form.format(getattr(one, name)) != form.format(getattr(other, name))


def _told(costs: Costs, than: Costs, names: Sequence[str]) -> str:
    return ", ".join(
        f"{_SAID[name][1].format(getattr(costs, name))} {_SAID[name][0]} instead of "
        f"{_SAID[name][1].format(getattr(than, name))}"
        for name in names
    )
