"""Costs of a replay: moves, time without an owner, duplicate messages, lag, imbalance. Pure.

Moves, orphan time, silence and imbalance are counted (`figures.py`). Duplicates and lag are estimated: messages arrive
as in the trace, and a member processes at most `capacity_per_s` of them, from all its queues in turn. The lag assumes a
group that keeps up in quiet times; it serves to compare rules, and does not predict the effect of a slow listener.

Retry topics are not counted, because their messages depend on the listeners.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    spans: dict[MessageQueue, list[Span]] = defaultdict(list)
    for span in outcome.spans:
        if not is_retry_topic(span.queue.topic):
            spans[span.queue].append(span)
    for of_queue in spans.values():
        of_queue.sort(key=lambda span: span.from_ms)
    totals = replay_figures(recorded, outcome)
    return Costs(
        moves=totals.moves,
        orphan_s=totals.orphan_ms / 1000,
        silent_s=silent_ms(recorded, outcome) / 1000,
        duplicates=_duplicates(recorded, handover, spans),
        lag_p99=_lag_p99(recorded, spans, capacity_per_s),
        imbalance=_imbalance(outcome, spans),
    )


def estimate_capacity(recorded: RecordedGroup) -> float:
    """Return the messages a second that a member can process: the maximum between two commits; at least 1."""
    window_ms, most = max(1_000.0, recorded.timing.persist_ms), 0
    for reports in recorded.dispatched.values():
        windows: dict[int, int] = defaultdict(int)
        for at_ms, n in reports:
            windows[int(at_ms // window_ms)] += n
        most = max(most, *windows.values())
    return max(1.0, most / window_ms * 1000)


# --- counted ---------------------------------------------------------------------------------------------------------


def _imbalance(outcome: ReplayOutcome, spans: Mapping[MessageQueue, Sequence[Span]]) -> float:
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

    def __init__(self, known: Sequence[tuple[float, int]]) -> None:
        self.at_ms = np.array([at_ms for at_ms, _ in known] or [0.0])
        self.ends = np.array([float(end) for _, end in known] or [0.0])

    def between(self, since_ms: float, until_ms: float) -> float:
        since, until = np.interp([since_ms, max(since_ms, until_ms)], self.at_ms, self.ends)
        return float(until - since)


def _duplicates(recorded: RecordedGroup, handover: Handover, spans: Mapping[MessageQueue, Sequence[Span]]) -> float:
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


def _lag_p99(recorded: RecordedGroup, spans: Mapping[MessageQueue, Sequence[Span]], capacity_per_s: float) -> float:
    queues = sorted(recorded.arrivals.keys() & spans.keys())
    if not queues:
        return 0.0
    steps = int(min(MAX_STEPS, max(1, recorded.end_ms // MIN_STEP_MS)))
    step_ms = recorded.end_ms / steps
    edges = np.linspace(0.0, recorded.end_ms, steps + 1)
    arriving = np.empty((steps, len(queues)))
    served = np.zeros((steps, len(queues)))
    owner = np.zeros((steps, len(queues)), dtype=np.int64)
    clients: dict[str, int] = {}
    for number, queue in enumerate(queues):
        arrived = _Arrived(recorded.arrivals[queue])
        arriving[:, number] = np.diff(np.interp(edges, arrived.at_ms, arrived.ends))
        for span in spans[queue]:
            _cover(served[:, number], span.from_ms / step_ms, min(span.to_ms / step_ms, steps))
            first, last = int(span.from_ms // step_ms), int(np.ceil(span.to_ms / step_ms))
            owner[first:last, number] = clients.setdefault(span.client, len(clients))
    room = capacity_per_s * step_ms / 1000
    most = room * np.minimum(served, 1.0)  # that a queue can have served in a step
    waiting, wanted = np.zeros(len(queues)), np.empty(len(queues))
    lags = np.empty((steps, len(queues)))
    for step in range(steps):
        waiting += arriving[step]
        np.minimum(waiting, most[step], out=wanted)
        of_member = np.bincount(owner[step], wanted, len(clients))
        if of_member.max() > room:
            wanted *= np.minimum(1.0, room / np.maximum(of_member, 1e-9))[owner[step]]
        waiting -= wanted
        lags[step] = waiting
    return float(np.quantile(lags, 0.99))


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
