"""One queue of a group: its owners over time, and the costs of each change of the owner. Pure.

`Ownership` defines the rules. A *tenure* is an ownership while it is open, and afterwards until no further events about
it can come: a member may report its dispatched messages after its lease has ended.

    c1 acquires at 100, drops at 150, c2 acquires at 160, pulls at 162     pause 12 ms, orphan 10 ms
    c1's lease ends at 300, c2 acquires at 290                             double 10 ms
    c1 reported dispatches up to 60, c2 starts at 55, reports 58           5 redelivered, 3 duplicates
    c1 dies; the broker had served it up to 80, committed 55               and at most 20 more, once c2 reaches 80
    c1 releases at 150, and is killed before it can report its drop        the ownership ends at 150

An ownership lies within the lease that the broker granted and ended. Events of the member can make it shorter, but
never longer: a killed member sends no more events, and the clock of its machine may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.events import Event
from traces.figures.records import Ownership

MAX_SILENT_CLAIMS = 8
"""Maximum number of members whose lease ended and that did not report the loss: the oldest of more are dead."""

_UNKNOWN_TOKEN = -2
"""Less than every token, also less than the token of a queue without leases (-1)."""


@dataclass(slots=True, eq=False)
class Tenure:
    """An ownership, with the events up to now."""

    owner: str
    token: int
    from_ms: float
    began: str
    cause: str
    start_offset: int
    reach: int
    from_client: str | None
    moved: bool
    is_first: bool  # no earlier owner of the queue is known
    orphan_ms: float
    shared: bool  # an earlier ownership has not ended
    clear_ms: float  # the time at which the last earlier ownership ended
    reported: int  # offset up to which earlier owners reported dispatches
    served: int  # offset up to which earlier owners may have dispatched
    reset_token: int
    backlog: int | None = None
    first_pull_ms: float | None = None
    first_message_ms: float | None = None
    handed_out: int = 0
    own_served: int = -1  # offset up to which this owner may have dispatched
    double_ms: float = 0.0
    to_ms: float | None = None
    ended: str = "open"
    end_cause: str = ""

    @property
    def pause_ms(self) -> float:
        """See `Ownership`."""
        if self.is_first or self.shared:
            return 0.0
        pulled_ms = self.from_ms if self.first_pull_ms is None else self.first_pull_ms
        return self.orphan_ms + max(0.0, pulled_ms - self.clear_ms)

    @property
    def redelivered(self) -> int:
        """See `Ownership`."""
        return max(0, self.reported - self.start_offset) if self.began == "acquired" else 0

    @property
    def duplicates(self) -> int:
        """See `Ownership`."""
        return max(0, min(self.reported, self.reach) - self.start_offset) if self.began == "acquired" else 0

    @property
    def possible_duplicates(self) -> int:
        """See `Ownership`."""
        if self.began != "acquired":
            return 0
        max_offset = min(max(self.reported, self.served), max(self.reach, self.own_served))
        return max(0, max_offset - self.start_offset) - self.duplicates


@dataclass(slots=True)
class _Claim:
    """A member that has acquired the queue and not dropped it; without a lease it is not the owner."""

    token: int
    leased: bool
    tenure: Tenure


class QueueOwners:
    """One queue; `advance` is called before each event, and sets the time."""

    def __init__(self, group: str, topic: str, broker: str, queue_id: int) -> None:
        self.topic = topic
        self.broker = broker
        self.queue_id = queue_id
        self.owners: list[Tenure] = []  # in the order in which they began
        self.last_owner: str | None = None
        self.orphan_since: float | None = None  # the time since which it has no owner although a member wants it
        self.orphan_ms = 0.0  # time without an owner before that, since the last owner's end
        self.ended_by = ""  # cause of the last end
        self._group = group
        self._claims: dict[str, _Claim] = {}
        # client -> its tenure, until it is returned to the caller; in the order in which they began
        self._latest: dict[str, Tenure] = {}
        self._since_ms = 0.0
        self._reported = self._served = -1
        self._reset_token = _UNKNOWN_TOKEN
        self._grant: tuple[str, int, int] | None = None  # client, token and lag of the last grant
        self._ended_token = _UNKNOWN_TOKEN  # newest token of the leases that the broker has ended

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, now_ms: float) -> None:
        """Count the time since the last call for the owners of the queue."""
        if len(self.owners) > 1:
            self.owners[1].double_ms += now_ms - self._since_ms
        self._since_ms = now_ms

    def set_wanted(self, is_wanted: bool, now_ms: float) -> None:
        """Start or stop counting the time without an owner; `is_wanted` is whether a member wants the topic."""
        if self.orphan_since is not None and not is_wanted:
            self.orphan_ms += now_ms - self.orphan_since
            self.orphan_since = None
        elif self.orphan_since is None and is_wanted and not self.owners and self.last_owner is not None:
            self.orphan_since = now_ms

    def orphaned_ms(self, now_ms: float) -> float:
        """Return the time without an owner since the last ownership ended."""
        return self.orphan_ms + (0.0 if self.orphan_since is None else now_ms - self.orphan_since)

    # --- events of members and brokers -------------------------------------------------------------------------------

    def acquired(self, event: Event) -> Sequence[Tenure]:
        """Process QUEUE_ACQUIRED; returns the finished tenures."""
        if 0 <= event.version <= self._ended_token:
            return ()  # its lease has ended, and without a lease it does not own the queue
        claim = self._claims.get(event.client)
        if claim is not None and claim.leased:
            claim.token = event.version
            return ()
        over = self._over(event.client)
        tenure = self._begin(event, "acquired")
        self._claims.pop(event.client, None)
        self._claims[event.client] = _Claim(event.version, True, tenure)
        return [*over, *self._forget_silent()] if len(self._claims) > MAX_SILENT_CLAIMS else over

    def granted(self, event: Event) -> Sequence[Tenure]:
        """Process LOCK_GRANTED: a member that had lost its lease may own the queue again."""
        if event.n >= 0:
            self._grant = (event.client, event.version, event.n)
        if event.version <= self._ended_token:
            self._ended_token = event.version - 1  # the broker lost its data, and restarted its count
        claim = self._claims.get(event.client)
        if claim is None:
            return ()
        claim.token = event.version
        if claim.leased:
            if claim.tenure.backlog is None and claim.tenure.token == event.version and event.n >= 0:
                claim.tenure.backlog = event.n  # the clock of the broker is ahead of the member's
            return ()
        over = self._over(event.client)
        claim.leased, claim.tenure = True, self._begin(event, "resumed")
        return over

    def expired(self, event: Event) -> None:
        """Process LOCK_EXPIRED: a lease ended; `n` messages beyond `offset` had been served under it, if known."""
        self._ended_token = max(self._ended_token, event.version)
        claim = self._claims.get(event.client)
        if claim is None or claim.token != event.version:
            return
        if event.n >= 0 and event.offset >= 0:
            claim.tenure.own_served = max(claim.tenure.own_served, event.offset + event.n)
            self._record_progress(claim.tenure, -1, claim.tenure.own_served)
        if claim.leased:
            claim.leased = False
            # After a reset the broker usually ends the lease before the member notices.
            self._end(claim.tenure, event, "reset" if event.detail == "reset" else "expired")

    def released(self, event: Event) -> Sequence[Tenure]:
        """Process QUEUE_RELEASED: it follows the drop, unless the member was killed before it could send that event."""
        self._ended_token = max(self._ended_token, event.version)
        claim = self._claims.get(event.client)
        if claim is None or claim.token != event.version:
            return ()
        del self._claims[event.client]
        if claim.leased:
            self._end(claim.tenure, event, "released")
        return self._over(event.client)

    def dropped(self, event: Event) -> Sequence[Tenure]:
        """Process QUEUE_DROPPED."""
        claim = self._claims.pop(event.client, None)
        if claim is None:
            return ()
        if claim.leased:
            self._end(claim.tenure, event, event.detail)
        return self._over(event.client)

    def pulled(self, event: Event) -> None:
        """Process FIRST_PULL."""
        tenure = self._latest.get(event.client)
        if tenure is not None and tenure.first_pull_ms is None:
            tenure.first_pull_ms = event.t_ms

    def messaged(self, event: Event) -> None:
        """Process FIRST_MESSAGE."""
        tenure = self._latest.get(event.client)
        if tenure is not None and tenure.first_message_ms is None:
            tenure.first_message_ms = event.t_ms

    def handed_out(self, event: Event) -> None:
        """Process MESSAGES_HANDED_OUT."""
        tenure = self._latest.get(event.client)
        if tenure is not None:
            tenure.handed_out += event.n
            tenure.reach = max(tenure.reach, event.offset)
            self._record_progress(tenure, tenure.reach, -1)

    def reset(self, event: Event) -> None:
        """Process OFFSET_RESET: repetitions of earlier dispatches are wanted, and do not count as duplicates."""
        self._reset_token = max(self._reset_token, event.version)
        self._reported = self._served = -1

    # --- tenures -----------------------------------------------------------------------------------------------------

    def _begin(self, event: Event, began: str) -> Tenure:
        now_ms, is_acquired = event.t_ms, began == "acquired"
        tenure = Tenure(
            owner=event.client,
            token=event.version,
            from_ms=now_ms,
            began=began,
            cause=event.cause,
            start_offset=event.offset,
            reach=event.offset,
            from_client=self.last_owner,
            moved=is_acquired and self.last_owner != event.client,
            is_first=self.last_owner is None,
            orphan_ms=self.orphaned_ms(now_ms),
            shared=bool(self.owners),
            clear_ms=now_ms,
            reported=self._reported,
            served=self._served,
            reset_token=self._reset_token,
        )
        if self._grant is not None and self._grant[:2] == (tenure.owner, tenure.token):
            tenure.backlog = self._grant[2]
        self.orphan_ms, self.orphan_since = 0.0, None
        if is_acquired:
            self.last_owner = event.client
        self.owners.append(tenure)
        self._latest[event.client] = tenure
        return tenure

    def _end(self, tenure: Tenure, event: Event, reason: str) -> None:
        tenure.to_ms, tenure.ended, tenure.end_cause = event.t_ms, reason, event.cause
        self.owners.remove(tenure)
        self.ended_by = event.cause
        if self.owners and self.owners[0].shared:
            self.owners[0].shared, self.owners[0].clear_ms = False, event.t_ms

    def _record_progress(self, tenure: Tenure, reported: int, served: int) -> None:
        """Record the progress of a member for later owners, also if it is reported late."""
        if tenure.token > self._reset_token:
            self._reported, self._served = max(self._reported, reported), max(self._served, served)
        if len(self._latest) == 1:
            return
        is_later = False
        for other in self._latest.values():
            if is_later and tenure.token > other.reset_token:
                other.reported, other.served = max(other.reported, reported), max(other.served, served)
            is_later = is_later or other is tenure

    def _over(self, client: str) -> Sequence[Tenure]:
        tenure = self._latest.pop(client, None)
        return () if tenure is None else (tenure,)

    def _forget_silent(self) -> Iterator[Tenure]:
        silent = [client for client, claim in self._claims.items() if not claim.leased]
        for client in silent[:-MAX_SILENT_CLAIMS]:
            del self._claims[client]
            yield from self._over(client)

    def close(self) -> Iterator[Tenure]:
        """End the queue: yield every tenure that was not returned yet."""
        for client in list(self._latest):
            yield from self._over(client)

    @property
    def tenures(self) -> Iterator[Tenure]:
        """The tenures that were not returned yet."""
        return iter(self._latest.values())

    def row(self, tenure: Tenure, end_ms: float) -> Ownership:
        """Return the record of a tenure; an open tenure lasts until `end_ms`."""
        return Ownership(
            group=self._group,
            topic=self.topic,
            broker=self.broker,
            queue_id=self.queue_id,
            owner=tenure.owner,
            from_ms=tenure.from_ms,
            to_ms=end_ms if tenure.to_ms is None else tenure.to_ms,
            began=tenure.began,
            ended=tenure.ended,
            cause=tenure.cause,
            end_cause=tenure.end_cause,
            token=tenure.token,
            start_offset=tenure.start_offset,
            backlog=tenure.backlog,
            first_pull_ms=tenure.first_pull_ms,
            first_message_ms=tenure.first_message_ms,
            handed_out=tenure.handed_out,
            reach=tenure.reach,
            from_client=tenure.from_client,
            moved=tenure.moved,
            orphan_ms=tenure.orphan_ms,
            pause_ms=tenure.pause_ms,
            double_ms=tenure.double_ms,
            redelivered=tenure.redelivered,
            duplicates=tenure.duplicates,
            possible_duplicates=tenure.possible_duplicates,
        )
