"""One versioned assignment for each group whose members let the broker assign queues. Pure.

Every member asks the same broker, the coordinator: the first by name of those that serve a topic of the group. The
assignment depends on the members, on where the topics are, and on the previous owners. The members report all of this
to the coordinator.

- **Routes.** Each member reports the queues of its topics. A queue that any of them reports is assigned, so members
  that ask different name servers cannot make the assignment go back and forth. As long as their reports differ, they
  are asked to refresh their routes.
- **Versions.** An assignment that differs from the previous one has a greater version, also if another coordinator made
  that one: versions start at the wall clock, and above every version that members report. Members act on the newest
  version only.
- **Taking over.** A coordinator that has just started, or has become the first by name, has no assignment. One that
  receives a newer version than its own was replaced in between, and forgets its own. Such a coordinator assigns nothing
  until every member has reported its last assignment, and continues from the newest of them. Members keep their queues.
  A dead member cannot report; it is removed from the group when its session expires. Until then no other member could
  have its queues anyway.

    A asks, knows nothing                    A is the only member   version 1000: A has everything
    B joins and asks                                                version 1001: B has half of it; notify A
    the coordinator restarts; A asks (1001)  B has not asked yet    wait
    B asks (1001)                                                   version 1002, the same assignment; notify A

RocketMQ: QueryAssignmentProcessor, where each answer is computed on its own, without versions, from the routes that the
broker itself asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from broker.assignment.sharing import assign, count_moves
from broker.assignment.topic_sharing import queues_to_pop
from model.assignment import AssignmentQuery, MemberAssignment, RequestMode, TopicQueues
from model.errors import SystemBusy
from model.limits import MAX_REQUEST_MODES
from model.message_queue import MessageQueue
from model.names import is_retry_topic

Members = Mapping[str, tuple[str, ...]]
"""Client id -> topics, of the members that let the broker assign; sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMode:
    """How a group gets the messages of a topic."""

    mode: RequestMode  # pulled or popped
    pop_share_queue_num: int = -1  # see `broker/assignment/topic_sharing.py`


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOutcome:
    """Answer to a member's query."""

    assignment: MemberAssignment | None  # its queues; None to wait and keep those it has
    version: int  # of the assignment now; 0 before the first
    look_again: bool  # members report different queues
    notify: bool  # the other members have to ask again, because something changed for them
    moved: int = -1  # queues that have another owner than in the version before, if that is new


@dataclass(slots=True)
class _Group:
    """State of one group at its coordinator."""

    version: int = 0  # of the assignment; 0 while there is none
    owners: dict[MessageQueue, str] = field(default_factory=dict)  # of the queues that are pulled
    assignments: dict[str, MemberAssignment] = field(default_factory=dict)  # client id -> its queues to pull and to pop
    reports: dict[str, AssignmentQuery] = field(default_factory=dict)  # client id -> its last query
    # Topic -> the queues that members report, and how many members report them.
    seen: dict[str, dict[TopicQueues, int]] = field(default_factory=dict)
    members: Members = field(default_factory=dict)  # at `members_version` of the group
    members_version: int = -1
    stale: bool = True  # an input of the assignment has changed

    def differ(self) -> bool:
        """Whether members report different queues of a topic."""
        return any(len(views) > 1 for views in self.seen.values())


class GroupAssignments:
    """The assignments of one broker, and the modes of its groups."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._modes: dict[str, dict[str, TopicMode]] = {}
        self._n_modes = 0

    # --- modes -------------------------------------------------------------------------------------------------------

    def mode_of(self, group: str, topic: str) -> TopicMode:
        """How a group gets messages of a topic: it pulls, unless another mode was set; it always pulls retry topics."""
        return self._modes.get(group, {}).get(topic, TopicMode(mode=RequestMode.PULL))

    def modes_of(self, group: str) -> dict[str, TopicMode]:
        """The modes that were set for a group, by topic in order."""
        return dict(sorted(self._modes.get(group, {}).items()))

    def set_mode(self, group: str, topic: str, mode: TopicMode) -> None:
        """Set how a group gets messages of a topic.

        Raises:
            SystemBusy: too many are set; nothing has changed.
        """
        of_group = self._modes.get(group, {})
        if topic not in of_group:
            if self._n_modes >= MAX_REQUEST_MODES:
                raise SystemBusy(
                    f"this broker knows {MAX_REQUEST_MODES} groups and topics with a mode already: delete groups that "
                    "are no longer needed"
                )
            self._n_modes += 1
        of_group[topic] = mode
        self._modes[group] = of_group
        if group in self._groups:
            self._groups[group].stale = True

    # --- assignments -------------------------------------------------------------------------------------------------

    def assignments_of(self, group: str) -> tuple[int, Mapping[str, MemberAssignment]]:
        """The version of a group's assignment and what each member should have; (0, {}) if there is none."""
        state = self._groups.get(group)
        return (state.version, state.assignments) if state is not None and state.version else (0, {})

    def forget(self, group: str) -> None:
        """Drop the assignment of a group that has no members; modes stay."""
        self._groups.pop(group, None)

    def delete(self, group: str) -> list[str]:
        """Drop everything about a group; returns the topics whose modes were set."""
        self.forget(group)
        topics = sorted(self._modes.pop(group, ()))
        self._n_modes -= len(topics)
        return topics

    def query(
        self,
        group: str,
        client_id: str,
        query: AssignmentQuery,
        *,
        group_version: int,
        members: Callable[[], Members],
        now_ms: int,
    ) -> QueryOutcome:
        """Answer a member; `members` is called when `group_version` is not the version of the last query."""
        state = self._groups.setdefault(group, _Group())
        if state.members_version != group_version:
            self._record_members(state, members(), group_version)
        if query.version > state.version > 0:
            # Another coordinator has made assignments since. So the assignment and the reports here are out of date.
            state.version, state.owners, state.assignments, state.stale = 0, {}, {}, True
            state.reports.clear()
            state.seen.clear()
        is_first_report, old_version, n_moved = not state.reports, state.version, -1
        views_changed = _record_query(state, client_id, query)
        if state.version:
            if state.stale:
                n_moved = self._renew(state, group, now_ms)
            # Membership changes are notified by every broker; route changes only here.
            notify = views_changed and (state.version != old_version or state.differ())
        else:
            if all(member in state.reports for member in state.members):
                n_moved = self._assign_first(state, group, now_ms)
            notify = is_first_report or state.version > 0
        return QueryOutcome(
            assignment=state.assignments.get(client_id) if state.version else None,
            version=state.version,
            look_again=state.differ(),
            notify=notify and len(state.members) > 1,
            moved=n_moved if state.version != old_version else -1,
        )

    def _record_members(self, state: _Group, members: Members, version: int) -> None:
        state.members_version = version
        if members == state.members:
            return
        state.members = members
        state.stale = True
        for client_id in [client_id for client_id in state.reports if client_id not in members]:
            _unsee(state, state.reports.pop(client_id))

    def _assign_first(self, state: _Group, group: str, now_ms: int) -> int:
        """Make the first assignment here from the last reports of all members; returns how many queues it moves."""
        newest: dict[MessageQueue, str] = {}
        reports = sorted(state.reports.items(), key=lambda report: (report[1].version, report[0]))
        for client_id, report in reports:
            newest.update(dict.fromkeys(report.queues, client_id))
        if reports:
            # A broker that was added after the modes were set takes them from the newest report.
            modes = self.modes_of(group)
            for topic, share in reports[-1][1].popped.items():
                if topic not in modes and self._n_modes < MAX_REQUEST_MODES:
                    self.set_mode(group, topic, TopicMode(mode=RequestMode.POP, pop_share_queue_num=share))
        state.owners = newest
        return self._renew(state, group, max(now_ms, *(report.version + 1 for _, report in reports)))

    def _renew(self, state: _Group, group: str, now_ms: int) -> int:
        """Compute the assignment again; its version rises only if it differs. Returns how many queues it moves."""
        topics = sorted({topic for topics in state.members.values() for topic in topics})
        queues_of = {topic: _queues(topic, state.seen.get(topic, {})) for topic in topics}
        popped = {
            topic: self.mode_of(group, topic)
            for topic in topics
            if not is_retry_topic(topic) and self.mode_of(group, topic).mode is RequestMode.POP
        }
        pulled = {topic: queues for topic, queues in queues_of.items() if topic not in popped}
        owners = assign(state.owners, pulled, state.members)
        n_moved = count_moves(state.owners, owners)
        queues_to_consume: dict[str, list[MessageQueue]] = {client_id: [] for client_id in state.members}
        for queue, owner in owners.items():
            queues_to_consume[owner].append(queue)
        for topic, mode in popped.items():
            takers = [client_id for client_id, member_topics in state.members.items() if topic in member_topics]
            for client_id in takers:
                queues_to_consume[client_id] += queues_to_pop(
                    client_id, queues_of[topic], takers, mode.pop_share_queue_num
                )
        contents = {
            client_id: (
                tuple(queues),
                {
                    topic: mode.pop_share_queue_num
                    for topic, mode in popped.items()
                    if topic in state.members[client_id]
                },
            )
            for client_id, queues in queues_to_consume.items()
        }
        if contents != {client_id: (each.queues, each.popped) for client_id, each in state.assignments.items()}:
            state.version = max(now_ms, state.version + 1)
            state.assignments = {
                client_id: MemberAssignment(version=state.version, queues=queues, popped=topics)
                for client_id, (queues, topics) in contents.items()
            }
        state.owners = owners
        state.stale = False
        return n_moved


def _record_query(state: _Group, client_id: str, query: AssignmentQuery) -> bool:
    """Record a member's query; returns whether the members together report other queues than before."""
    old_report = state.reports.get(client_id)
    state.reports[client_id] = query
    if old_report is not None and old_report.routes == query.routes:
        return False
    changed = False
    for topic, queues in query.routes.items():
        views = state.seen.setdefault(topic, {})
        changed = changed or queues not in views
        views[queues] = views.get(queues, 0) + 1
    if old_report is not None:
        changed = _unsee(state, old_report) or changed
    state.stale = state.stale or changed
    return changed


def _unsee(state: _Group, report: AssignmentQuery) -> bool:
    changed = False
    for topic, queues in report.routes.items():
        views = state.seen[topic]
        views[queues] -= 1
        if not views[queues]:
            changed = True
            del views[queues]
        if not views:
            del state.seen[topic]
    return changed


def _queues(topic: str, views: Mapping[TopicQueues, int]) -> list[MessageQueue]:
    """Every queue that any member sees."""
    counts: dict[str, int] = {}
    for view in views:
        for broker_name, count in view:
            counts[broker_name] = max(counts.get(broker_name, 0), count)
    return [MessageQueue(topic, name, number) for name in sorted(counts) for number in range(counts[name])]
