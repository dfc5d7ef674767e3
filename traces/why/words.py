"""Texts that explain a change, a stage, a move, and a message. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from model.events import Event, EventKind
from traces.figures.records import Rebalance
from traces.why.causes import Discovery
from traces.why.messages import Handout, MessageHistory, TimesDispatched
from traces.why.moves import MoveStep, QueueMove, Stage

_LEFT = {"unregister": "left", "close": "lost its connection", "expiry": "was silent too long", "right": "lost a right"}
_ENDED = {
    "revoked": "its own pass revoked the queue",
    "shutdown": "it shut down",
    "lost": "it lost the lease",
    "reset": "an operator reset the offset",
    "close": "its connection was lost",
    "expiry": "its session expired",
    "unregister": "it left the group",
    "right": "its user lost a right to the group or to a topic",
    "unlock": "it released the lease",
    "given up": "the broker stopped waiting for its acknowledgements",
    "restart": "it had left before the broker was restarted",
    "replaced": "a new process took its place",
}
_DISCOVERY = {
    Discovery.NOTIFIED: "",
    Discovery.ITSELF: "",
    Discovery.LOST: "The notification was sent and never arrived: the member's timer detected the change.",
    Discovery.SILENT: "No broker notified the members of this change: the member's timer detected it.",
}


def clock(t_ms: float) -> str:
    """Format the time of day, UTC, to the millisecond."""
    return datetime.fromtimestamp(t_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


def format_span(ms: float) -> str:
    """Format a time span for people."""
    return f"{ms:,.1f} ms" if ms < 10 else f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def describe_change(event: Event | None) -> str:
    """Describe the change of the world that an event reports, as a sentence without its full stop."""
    if event is None:
        return "an event happened that is not in the trace"
    client = event.client or event.node
    simple = {
        EventKind.CLIENT_START: f"{client} started",
        EventKind.CLIENT_STOP: f"{client} stopped",
        EventKind.MEMBER_JOIN: f"{client} joined",
        EventKind.MEMBER_LEAVE: f"{client} {_LEFT.get(event.detail, 'left')}",
        EventKind.MEMBER_BACK: f"{client} is back with a new process",
        EventKind.SUBSCRIPTION_CHANGE: f"{client} changed its subscriptions",
        EventKind.GROUP_SETTINGS_CHANGED: "an operator changed the settings of the group",
        EventKind.ASSIGNMENT_MADE: f"{event.broker} made a new assignment",
        EventKind.ROUTE_CHANGED: f"the queues of {event.topic or 'a topic'} changed",
        EventKind.BROKER_UP: f"broker {event.broker or event.detail} came up",
        EventKind.BROKER_DOWN: f"broker {event.broker or event.detail} went down",
        EventKind.OFFSET_RESET: f"an operator reset the offset of {event.topic}@{event.broker}:{event.queue_id}",
        EventKind.LOCK_EXPIRED: f"a lease of {client} ended ({_ENDED.get(event.detail, event.detail)})",
        EventKind.QUEUE_DROPPED: f"{client} lost a queue",
        EventKind.REBALANCE_BEGIN: f"{client} ran a pass by its timer",
    }
    if event.kind == EventKind.BROKER_DOWN and event.node != event.broker:
        return f"{client} lost its connection to broker {event.broker or event.detail}"
    return simple.get(EventKind(event.kind), event.kind.lower().replace("_", " "))


def describe_cause(rebalance: Rebalance) -> str:
    """Describe the change of the world that began a rebalance, as a sentence without its full stop."""
    if not rebalance.kind:
        return describe_change(None)
    return describe_change(
        Event(
            rebalance.began_ms,
            rebalance.cause.rpartition("/")[0],
            -1,
            rebalance.kind,
            rebalance.cause,
            broker=rebalance.broker,
            client=rebalance.client,
            detail=rebalance.detail,
        )
    )


_STAGES: dict[MoveStep, str] = {
    MoveStep.VERSION: "{broker} counts group version {version}, with {members}",
    MoveStep.NOTIFY: "{notifier} notified {members}",
    MoveStep.NOTIFIED: "{client} was notified",
    MoveStep.PASS_BEFORE: "{client} began a pass ({triggers})",
    MoveStep.PASS: "{client} began a pass ({triggers})",
    MoveStep.DROPPED: "{client} stopped dispatching it: {ended}",
    MoveStep.RELEASED: "{client} had drained and committed it, and released the lease",
    MoveStep.ENDED: "{broker} ended the lease of {client}: {ended}",
    MoveStep.LEASE: "{broker} granted the lease to {client}, from offset {offset}",
    MoveStep.ACQUIRED: "{client} owns it",
    MoveStep.PULL: "{client} sent its first pull",
    MoveStep.MESSAGE: "{client} got its first message, offset {offset}",
}


def stage_text(stage: Stage) -> str:
    """Describe the event at the end of a stage."""
    event = stage.event
    if stage.step is MoveStep.CHANGE:
        return describe_change(event)
    return _STAGES[stage.step].format(
        client=event.client,
        broker=event.broker,
        notifier=event.broker or event.node,
        version=event.version,
        members=_members(event.n),
        triggers=event.detail.replace("+", ", "),
        ended=_ENDED.get(event.detail, event.detail),
        offset=f"{event.offset:,}",
    )


def _members(n: int) -> str:
    return "1 member" if n == 1 else f"{n:,} members"


def move_text(move: QueueMove) -> str:
    """Describe a move in one sentence, and a second one if its notification did not arrive."""
    origin = "for the first time" if move.from_client is None else f"from {move.from_client}"
    text = f"{move.queue} went to {move.owner} {origin} because {describe_change(move.root)}."
    return f"{text} {_DISCOVERY[move.learned]}".rstrip()


def message_lines(story: MessageHistory) -> list[str]:
    """Explain, line by line, how often a message was dispatched."""
    offset_text = f"Offset {story.offset:,} of {story.queue}"
    if story.outcome is TimesDispatched.NEVER:
        return [
            f"{offset_text} was never dispatched to a listener of {story.group}.",
            _no_delivery_reason(story),
            *_dead(story),
        ]
    times = {TimesDispatched.ONCE: "once", TimesDispatched.TWICE: f"{len(story.handouts)} times"}
    lines = [f"{offset_text} was dispatched to listeners of {story.group} {times.get(story.outcome, story.outcome)}."]
    for number, handout in enumerate(story.handouts, 1):
        lines.append(f"{number}. {_given(handout)}")
        if number < len(story.handouts):
            lines.append(f"   {_redelivery_reason(handout, story.handouts[number], story.offset)}")
    if story.passed is not None:
        lines.append(f"The group has committed it since {clock(story.passed.t_ms)}: it will not be redelivered.")
    elif story.dead is None:
        lines.append("The group has not committed it yet: it may be redelivered.")
    return lines + _dead(story)


def _given(handout: Handout) -> str:
    under = ""
    if handout.acquired is not None:
        acquired = handout.acquired
        start = f"{clock(acquired.t_ms)} to begin at offset {acquired.offset:,}"
        under = f" under lease {acquired.version}, which it got at {start}"
    if handout.reported is None:
        return f"{handout.client} received it{under}, and died before it could report whether it dispatched it."
    return f"{handout.client} reported at {clock(handout.reported.t_ms)} that it had dispatched it{under}."


def _redelivery_reason(handout: Handout, after: Handout, offset: int) -> str:
    end_event, commit = handout.ended, handout.commit
    committed = "it had committed nothing" if commit is None else f"its last commit was {commit.offset:,}"
    if end_event is None:
        if handout.client == after.client:
            return f"{handout.client} kept the queue and went back: a listener failed, or seek() was called."
        return f"{handout.client} still owned the queue when {after.client} got it: two members owned it."
    if end_event.kind == EventKind.OFFSET_RESET or end_event.detail == "reset":
        return f"An operator reset the offset at {clock(end_event.t_ms)}, so it was redelivered."
    how = _ENDED.get(end_event.detail, end_event.detail)
    if commit is not None and commit.offset > offset:
        moved_at = clock(end_event.t_ms)
        return f"It was committed ({commit.offset:,}) before the queue moved at {moved_at}: this must not happen."
    if end_event.kind == EventKind.LOCK_EXPIRED:
        return (
            f"It was served under the lease of {handout.client}, which ended at {clock(end_event.t_ms)}: {how}. "
            f"{committed[0].upper()}{committed[1:]}, so {after.client} got the queue from there."
        )
    ended_at = clock(end_event.t_ms)
    return f"The ownership of {handout.client} ended at {ended_at}: {how}; {committed}, which does not include it."


def _no_delivery_reason(story: MessageHistory) -> str:
    event = story.skipped
    if event is None:
        if story.passed is not None:
            client = story.passed.client or "an unknown client"
            return (
                f"{client} committed {story.passed.offset:,} at {clock(story.passed.t_ms)}, which passes it, and no "
                "member reported that it was dispatched: either that member died before it could report it, or the "
                "message does not match the subscription, or it is lost."
            )
        if story.owner:
            return f"Not yet: {story.owner} owns the queue and has reached offset {story.position:,}."
        return "Not yet: the queue has no owner at the end of the trace."
    why = {
        EventKind.QUEUE_ACQUIRED: f"the group began this queue at offset {event.offset:,}",
        EventKind.OFFSET_RESET: f"an operator reset the offset to {event.offset:,}",
        EventKind.OFFSET_MOVED: f"the queue goes on at offset {event.offset:,} ({event.detail})",
        EventKind.MESSAGES_DAMAGED: "it is damaged or missing at the broker",
        EventKind.MESSAGES_UNDECODABLE: "it is not a message: a foreign client stored it",
    }
    return f"At {clock(event.t_ms)} {why[EventKind(event.kind)]}."


def _dead(story: MessageHistory) -> list[str]:
    if story.dead is None:
        return []
    return [f"It failed for the last time, and was sent to the dead-letter queue at {clock(story.dead.t_ms)}."]
