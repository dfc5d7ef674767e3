"""A search for a small programme that fails: fewer steps, clients, servers and messages, in turns. Pure.

    shrink(programme, fails)      `fails` runs a programme and says whether it still fails in that way

Steps are taken out in halves, then in quarters, and so on down to single ones (Zeller's ddmin); each other number is
halved as long as that fails too. The result is small, not the smallest: each single further cut makes it pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from model.errors import ConfigError
from testbed.simulation.engine.programme import GroupPart, Programme, Step

MAX_RUNS = 300
"""Runs of one search: some minutes."""


class _Search:
    """A search under way: the smallest programme that fails so far."""

    def __init__(self, programme: Programme, fails: Callable[[Programme], bool], max_runs: int) -> None:
        self.best = programme
        self.runs = 0
        self._fails, self._max_runs = fails, max_runs
        self._seen: dict[Programme, None] = {programme: None}

    def smaller(self, make: Callable[[], Programme]) -> bool:
        """Try a programme; it is the best one if it fails. One that is not valid does not."""
        try:
            programme = make()
        except ConfigError:
            return False
        if programme in self._seen or self.runs >= self._max_runs:
            return False
        self._seen[programme] = None
        self.runs += 1
        if self._fails(programme):
            self.best = programme
            return True
        return False


def shrink(programme: Programme, fails: Callable[[Programme], bool], *, max_runs: int = MAX_RUNS) -> Programme:
    """Search for a small programme that fails; the programme itself does, and needs no run."""
    search = _Search(programme, fails, max_runs)
    last_best = None
    while last_best != search.best and search.runs < max_runs:
        last_best = search.best
        _shrink_steps(search)
        _shrink_clients(search)
        _shrink_numbers(search)
    return search.best


def _shrink_steps(search: _Search) -> None:
    """Ddmin over the steps."""
    size = max(1, len(search.best.step) // 2)
    while search.best.step:
        start, cut = 0, False
        while start < len(search.best.step):
            steps = search.best.step
            remaining = steps[:start] + steps[start + size :]
            if search.smaller(partial(replace, search.best, step=remaining)):
                cut = True
            else:
                start += size
        if size == 1 and not cut:
            return
        size = max(1, size // 2)


def _shrink_clients(search: _Search) -> None:
    """Fewer groups, members, producers, topics and servers; steps of hosts that are gone go with them."""
    for group in search.best.group:
        if len(search.best.group) > 1:
            search.smaller(partial(_with_groups, search.best, [other for other in search.best.group if other != group]))
    for name in [group.name for group in search.best.group]:
        _lower(search, partial(_members_of, name=name), partial(_with_members, name=name))
    for topic in search.best.topic:
        if len(search.best.topic) > 1:
            remaining = tuple(each for each in search.best.topic if each != topic)
            search.smaller(partial(_fitting, search.best, topic=remaining))
    cluster = search.best.cluster
    if cluster.name_servers > 1:
        search.smaller(lambda: _fitting(search.best, cluster=replace(search.best.cluster, name_servers=1)))
    if cluster.brokers > 1:
        search.smaller(lambda: _fitting(search.best, cluster=replace(search.best.cluster, brokers=1)))
    if search.best.load.producers > 1:
        search.smaller(lambda: _fitting(search.best, load=replace(search.best.load, producers=1)))


def _shrink_numbers(search: _Search) -> None:
    """Fewer messages and queues, and a shorter time."""
    _lower(search, lambda best: best.load.messages, lambda best, n: replace(best, load=replace(best.load, messages=n)))
    last_s = max((step.at_s for step in search.best.step), default=0.0)
    search.smaller(lambda: replace(search.best, lasts_s=min(search.best.lasts_s, last_s + 1.0)))
    for index in range(len(search.best.topic)):
        _lower(search, partial(_queues_of, index=index), partial(_with_queues, index=index))


def _lower(search: _Search, value: Callable[[Programme], int], make: Callable[[Programme, int], Programme]) -> None:
    """Make a number smaller as long as that fails: by half, and else by one."""
    while True:
        n = value(search.best)
        lower = [fewer for fewer in dict.fromkeys((n // 2, n - 1)) if fewer >= 1]
        if not any(search.smaller(partial(make, search.best, fewer)) for fewer in lower):
            return


def _members_of(programme: Programme, name: str) -> int:
    return next(group.members for group in programme.group if group.name == name)


def _queues_of(programme: Programme, index: int) -> int:
    return programme.topic[index].queues


def _with_queues(programme: Programme, queues: int, index: int) -> Programme:
    topics = list(programme.topic)
    topics[index] = replace(topics[index], queues=queues)
    return replace(programme, topic=tuple(topics))


def _with_groups(programme: Programme, groups: list[GroupPart]) -> Programme:
    return _fitting(programme, group=tuple(groups))


def _with_members(programme: Programme, members: int, name: str) -> Programme:
    groups = [
        replace(group, members=members, waiting=min(group.waiting, members - 1)) if group.name == name else group
        for group in programme.group
    ]
    return _with_groups(programme, groups)


def _fitting(programme: Programme, **parts: object) -> Programme:
    """The programme with other parts, and without the steps that name removed ones."""
    bare = replace(programme, step=(), **parts)  # type: ignore[arg-type]
    hosts, topics = bare.hosts(), {topic.name for topic in bare.topic}

    def stays(step: Step) -> bool:
        return all(not host or host in hosts for host in (step.who, step.to)) and (
            not step.topic or step.topic in topics
        )

    return replace(bare, step=tuple(step for step in programme.step if stays(step)))
