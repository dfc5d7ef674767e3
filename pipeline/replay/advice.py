"""Ranks the configurations of a what-if, and recommends one in a sentence, with the reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from model.errors import ConfigError
from pipeline.replay.costs import Costs

if TYPE_CHECKING:
    from pipeline.replay.job import TriedRules

SORTS = {
    "all": "",
    "moves": "moves",
    "orphan": "orphan_s",
    "silent": "silent_s",
    "duplicates": "duplicates",
    "lag": "lag_p99",
    "imbalance": "imbalance",
}
"""Name in `--sort` -> cost; `all` is the sum of the ranks over all costs."""
_FORMATS = {
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
        ConfigError: it is not a name of `SORTS`.
    """
    if name not in SORTS:
        raise ConfigError(f"--sort must be one of {', '.join(SORTS)}; got {name}")
    return name


def rank_rules(tried: Iterable[TriedRules], sort: str = "all") -> list[TriedRules]:
    """Return the configurations, the best first; of configurations with equal costs only the first is kept."""
    different = list({each.costs: each for each in reversed(list(tried))}.values())
    cost = SORTS[sort]
    return sorted(
        different,
        key=lambda each: (getattr(each.costs, cost) if cost else 0, _ranks(each, different), each.costs),
    )


def counts(tried: Sequence[TriedRules], front: Sequence[bool]) -> str:
    """Describe the number of configurations, and of configurations on the Pareto front.

    Equal costs are one point of the picture and one row of the table, so the text has both numbers of the front.
    """
    costs = [each.costs for each, is_on_front in zip(tried, front, strict=True) if is_on_front]
    return f"{len(tried)} configurations; Pareto front: {len(costs)}, with {len(set(costs))} different costs"


def _ranks(candidate: TriedRules, others: Sequence[TriedRules]) -> int:
    """Count the costs in which other configurations are better: lowest for one that is good in every cost."""
    return sum(a < b for other in others for a, b in zip(other.costs, candidate.costs, strict=True))


def advice(best: TriedRules, replayed: TriedRules, sort: str = "all") -> str:
    """Recommend a configuration, with its gains and losses against `replayed`, which has the rules of the trace."""
    better, worse = _differences(best.costs, replayed.costs), _differences(replayed.costs, best.costs)
    by = (
        "its ranks in all costs together are the best"
        if sort == "all"
        else f"it is the best in {_FORMATS[SORTS[sort]][0]}"
    )
    if not better:
        return "Keep the rules of the trace: the best configuration lowers none of the costs."
    wins = _compared(best.costs, replayed.costs, better)
    loses = f"; it costs {_compared(best.costs, replayed.costs, worse)}" if worse else "; it costs nothing"
    return f"Choose {describe_rules(best)}, because {by}: {wins} under the rules of the trace{loses}."


def describe_rules(tried: TriedRules) -> str:
    """Describe the rules of a configuration."""
    rules = tried.rules
    return (
        f"{rules.strategy} with a rebalance interval of {rules.interval_ms / 1000:g} s, a session timeout of "
        f"{rules.timeout_ms / 1000:g} s, handover {rules.handover.value} and "
        f"{'' if rules.notify else 'no '}notifications"
    )


def _differences(costs: Costs, other_costs: Costs) -> list[str]:
    """Return the costs that are lower in `costs` than in `other_costs`, as printed."""
    return [
        name
        for name in Costs._fields
        if getattr(costs, name) < getattr(other_costs, name) and _differ(name, costs, other_costs)
    ]


def _differ(name: str, costs: Costs, other_costs: Costs) -> bool:
    form = _FORMATS[name][1]
    return form.format(getattr(costs, name)) != form.format(getattr(other_costs, name))


def _compared(costs: Costs, than: Costs, names: Sequence[str]) -> str:
    return ", ".join(
        f"{_FORMATS[name][1].format(getattr(costs, name))} {_FORMATS[name][0]} instead of "
        f"{_FORMATS[name][1].format(getattr(than, name))}"
        for name in names
    )
