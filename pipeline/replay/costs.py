"""Costs of a replay: moves, time without an owner, duplicate messages, lag, imbalance. Pure.

Moves, orphan time, silence and imbalance are counted (`figures.py`). Duplicates and lag are estimated: messages arrive
as in the trace, and a member processes at most `capacity_per_s` of them, from all its queues in turn. The lag assumes a
group that keeps up in quiet times; it serves to compare rules, and does not predict the effect of a slow listener.

Retry topics are not counted, because their messages depend on the listeners.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model.message_queue import MessageQueue
from model.names import is_retry_topic
from pipeline.replay.figures import replay_figures, silent_ms
from pipeline.replay.recorded import RecordedGroup
from pipeline.replay.replay import ReplayOutcome, Span
from pipeline.replay.rules import Handover

MAX_STEPS = 3_600
"""Steps of the lag estimate; one a second for a trace of an hour."""
MIN_STEP_MS = 100.0
MAX_CELLS = 1_000_000
"""Queues times steps whose lags are estimated together, unless one replay has more: some 60 MB."""
SpansByQueue = Mapping[MessageQueue, Sequence[Span]]
"""The spans of each queue, in order of time."""
Arriving = dict[MessageQueue, npt.NDArray[np.float64]]
"""The messages that arrive in each queue, step by step; sorted by queue."""


class Costs(NamedTuple):
    """Costs of one configuration; lower is better.

    `moves` and `orphan_s` are defined in `traces/figures/records.py`.
    """

    moves: int
    orphan_s: float
    silent_s: float  # seconds for which queues belonged to members that were dead or hung, summed over the queues
    duplicates: float  # messages delivered twice, estimated
    lag_p99: float  # lag of a queue, 99th percentile over queues and time, estimated
    imbalance: float  # largest minus smallest number of queues of a member, on average over time


def compute_costs(recorded: RecordedGroup, handover: Handover, outcome: ReplayOutcome, capacity_per_s: float) -> Costs:
    """Compute the costs of replaying `recorded` with this handover; a member processes `capacity_per_s` messages."""
    return compute_all_costs(recorded, [(handover, outcome)], capacity_per_s)[0]


def compute_all_costs(
    recorded: RecordedGroup, replayed: Sequence[tuple[Handover, ReplayOutcome]], capacity_per_s: float
) -> list[Costs]:
    """Compute the costs of several replays; estimating their lags together takes less time than one by one."""
    spans = [_spans_by_queue(outcome) for _, outcome in replayed]
    lags = _lags_p99(recorded, spans, capacity_per_s)
    all_costs: list[Costs] = []
    for (handover, outcome), of_queues, lag_p99 in zip(replayed, spans, lags, strict=True):
        totals = replay_figures(recorded, outcome)
        costs = Costs(
            moves=totals.moves,
            orphan_s=totals.orphan_ms / 1000,
            silent_s=silent_ms(recorded, outcome) / 1000,
            duplicates=_duplicates(recorded, handover, of_queues),
            lag_p99=lag_p99,
            imbalance=_imbalance(outcome, of_queues),
        )
        all_costs.append(costs)
    return all_costs


def _spans_by_queue(outcome: ReplayOutcome) -> SpansByQueue:
    spans: dict[MessageQueue, list[Span]] = defaultdict(list)
    for span in outcome.spans:
        if not is_retry_topic(span.queue.topic):
            spans[span.queue].append(span)
    for of_queue in spans.values():
        of_queue.sort(key=lambda span: span.from_ms)
    return spans


def estimate_capacity(recorded: RecordedGroup) -> float:
    """Return the messages a second that a member can process: the maximum between two commits; at least 1."""
    window_ms, max_count = max(1_000.0, recorded.timing.persist_ms), 0
    for reports in recorded.dispatched.values():
        windows: dict[int, int] = defaultdict(int)
        for at_ms, n in reports:
            windows[int(at_ms // window_ms)] += n
        max_count = max(max_count, *windows.values())
    return max(1.0, max_count / window_ms * 1000)


# --- counted ---------------------------------------------------------------------------------------------------------


def _imbalance(outcome: ReplayOutcome, spans: SpansByQueue) -> float:
    clients = {client: number for number, client in enumerate(sorted({each[2] for each in outcome.alive}))}
    changes: list[tuple[float, int, int, int]] = []
    for since, until, client in outcome.alive:
        changes += [(since, clients[client], 1, 0), (until, clients[client], -1, 0)]
    for of_queue in spans.values():
        for span in of_queue:
            changes += [(span.from_ms, clients[span.client], 0, 1), (span.to_ms, clients[span.client], 0, -1)]
    changes.sort()
    loads, alive = np.zeros(len(clients), dtype=np.int64), np.zeros(len(clients), dtype=np.int64)
    total = lasted = 0.0
    last_ms = changes[0][0] if changes else 0.0
    for at_ms, number, comes, gains in changes:
        if at_ms > last_ms:
            of_alive = loads[alive > 0]
            if len(of_alive):
                total += float(of_alive.max() - of_alive.min()) * (at_ms - last_ms)
                lasted += at_ms - last_ms
            last_ms = at_ms
        alive[number] += comes
        loads[number] += gains
    return total / lasted if lasted else 0.0


# --- estimated -------------------------------------------------------------------------------------------------------


class _Arrived:
    """The end of a queue at any time, interpolated linearly between the known points."""

    def __init__(self, points: Sequence[tuple[float, int]]) -> None:
        self.at_ms = np.array([at_ms for at_ms, _ in points] or [0.0])
        self.ends = np.array([float(end) for _, end in points] or [0.0])

    def between(self, since_ms: float, until_ms: float) -> float:
        since, until = np.interp([since_ms, max(since_ms, until_ms)], self.at_ms, self.ends)
        return float(until - since)


def _duplicates(recorded: RecordedGroup, handover: Handover, spans: SpansByQueue) -> float:
    persist_ms, total = recorded.timing.persist_ms, 0.0
    for queue, of_queue in spans.items():
        arrived = _Arrived(recorded.arrivals.get(queue, []))
        for span in of_queue:
            drained_ms = min(span.drained_ms, recorded.end_ms)
            if span.ended == "silent":
                # Messages that it processed since its last commit are redelivered.
                total += arrived.between(_committed_ms(span, span.to_ms, persist_ms), span.to_ms)
            elif handover is Handover.CUT and span.ended != "open":
                # Messages at the listener are redelivered: as many as arrive during a drain.
                total += arrived.between(2 * span.to_ms - drained_ms, span.to_ms)
        if handover is Handover.OVERLAP:
            for old, new in itertools.pairwise(of_queue):
                if new.from_ms < min(old.drained_ms, recorded.end_ms):
                    # The new owner begins at the last commit while the old one still processes.
                    total += arrived.between(_committed_ms(old, new.from_ms, persist_ms), min(old.to_ms, new.to_ms))
    return total


def _committed_ms(span: Span, at_ms: float, persist_ms: float) -> float:
    """Return the time of the owner's last commit before `at_ms`."""
    return at_ms - max(0.0, at_ms - span.from_ms) % persist_ms


def _lags_p99(recorded: RecordedGroup, replays: Sequence[SpansByQueue], capacity_per_s: float) -> list[float]:
    """Estimate the lags of replays, some at a time: a step takes about as long for a thousand queues as for ten."""
    if not recorded.arrivals:
        return [0.0] * len(replays)
    steps = int(min(MAX_STEPS, max(1, recorded.end_ms // MIN_STEP_MS)))
    together = max(1, MAX_CELLS // (steps * len(recorded.arrivals)))
    edges = np.linspace(0.0, recorded.end_ms, steps + 1)
    arriving: Arriving = {}
    for queue, points in sorted(recorded.arrivals.items()):
        arrived = _Arrived(points)
        arriving[queue] = np.diff(np.interp(edges, arrived.at_ms, arrived.ends))
    step_ms = recorded.end_ms / steps
    lags: list[float] = []
    for first in range(0, len(replays), together):
        lags += _lags_of(arriving, replays[first : first + together], step_ms, capacity_per_s * step_ms / 1000)
    return lags


def _lags_of(arriving: Arriving, replays: Sequence[SpansByQueue], step_ms: float, room: float) -> Iterator[float]:
    """Yield the lag of each replay; members process `room` messages in a step. A queue is a column, a step is a row."""
    steps = len(next(iter(arriving.values())))
    columns = [(replay, queue) for replay, spans in enumerate(replays) for queue in arriving if queue in spans]
    arrived, served = (np.zeros((steps, len(columns))) for _ in range(2))
    owner = np.zeros((steps, len(columns)), dtype=np.int64)
    members: dict[tuple[int, str], int] = {}
    for number, (replay, queue) in enumerate(columns):
        arrived[:, number] = arriving[queue]
        owner[:, number] = members.setdefault((replay, ""), len(members))  # while it has none, nothing is served
        for span in replays[replay][queue]:
            _cover(served[:, number], span.from_ms / step_ms, min(span.to_ms / step_ms, steps))
            first, last = int(span.from_ms // step_ms), int(np.ceil(span.to_ms / step_ms))
            owner[first:last, number] = members.setdefault((replay, span.client), len(members))
    lags = waiting_messages(arrived, room * np.minimum(served, 1.0), owner, len(members), room)
    of_replay = np.array([replay for replay, _ in columns], dtype=np.int64)
    for replay in range(len(replays)):
        of_queues = lags[:, of_replay == replay]
        yield float(np.quantile(of_queues, 0.99)) if of_queues.size else 0.0


def waiting_messages(
    arriving: npt.NDArray[np.float64],
    capacity: npt.NDArray[np.float64],
    owner: npt.NDArray[np.int64],
    members: int,
    room: float,
) -> npt.NDArray[np.float64]:
    """Return the messages that wait in each queue (column) after each step (row).

    In a step a queue is served at most `capacity` messages, and a member at most `room` from all its queues. If its
    queues have more, each gets the same part.
    """
    waiting, served_now = np.zeros(arriving.shape[1]), np.empty(arriving.shape[1])
    lags = np.empty_like(arriving)
    for step in range(len(arriving)):
        waiting += arriving[step]
        np.minimum(waiting, capacity[step], out=served_now)
        of_member = np.bincount(owner[step], served_now, members)
        if of_member.max(initial=0.0) > room:
            served_now *= np.minimum(1.0, room / np.maximum(of_member, 1e-9))[owner[step]]
        waiting -= served_now
        lags[step] = waiting
    return lags


def _cover(steps: npt.NDArray[np.float64], since: float, until: float) -> None:
    """Add to each step the fraction of it between two times, which are counted in steps."""
    first, last = int(since), int(until)
    if first == last:
        if first < len(steps):
            steps[first] += until - since
        return
    steps[first] += first + 1 - since
    steps[first + 1 : last] += 1.0
    if last < len(steps):
        steps[last] += until - last
