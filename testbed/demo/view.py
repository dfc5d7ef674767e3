"""Live view of a demo: owners of queues, latest events and counters, in any terminal of at least 80 x 24.

`frame` draws one picture of a state, and keeps no state itself. A terminal with 36 lines or more also shows the
finished steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

import anyio
from rich.box import ROUNDED
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from model.message_queue import MessageQueue
from testbed.demo.report import milliseconds, words
from testbed.demo.state import DemoState, Health, Note, Tone, short

FRAMES_PER_S = 10
FLASH_MS = 700.0
"""Time for which a moved queue is drawn bright."""
STEPS_FROM_LINES = 36
LAG_ALARM = 200
"""Lag from which it is highlighted."""

_COLOURS = ("dodger_blue1", "medium_purple1", "spring_green3", "gold3", "dark_orange", "hot_pink")
_HEALTH = {Health.NOT_YET: "dim", Health.LIVE: "green", Health.SILENT: "bold red", Health.LEFT: "dim"}
_TONE = {Tone.PLAIN: "", Tone.RESULT: "green", Tone.WARNING: "yellow"}
_LABEL_COLUMNS = 14


def frame(state: DemoState, width: int, height: int) -> RenderableType:
    """Draw the state for a terminal of this size."""
    now_ms = state.clock_ms()
    top: list[RenderableType] = [
        _title(state, now_ms, width),
        _bar(state, width),
        _matrix(state, now_ms, width),
        _counters(state),
    ]
    used = 2 + len(state.health) + 5 + 1
    if height >= STEPS_FROM_LINES:
        top.append(_panel("rebalances", _steps(state)))
        used += state.steps_planned + 2
    return Group(*top, _panel("events", _notes(state, max(1, height - used - 2))))


def _title(state: DemoState, now_ms: float, width: int) -> Text:
    left = Text.assemble(
        (" rebalance-lab ", "bold reverse"),
        (f"  step {min(len(state.steps) + 1, state.steps_planned)} of {state.steps_planned}  ", "dim"),
        (state.step, "bold"),
    )
    seconds = (now_ms - state.started_ms) / 1000
    right = Text(f"{state.messages.sent / max(1.0, seconds):,.0f} messages/s  {seconds:.1f} s ", "dim")
    return _spread(left, right, width)


def _spread(left: Text, right: Text, width: int) -> Text:
    gap = max(1, width - left.cell_len - right.cell_len)
    return Text.assemble(left, " " * gap, right, no_wrap=True, overflow="crop")


def _bar(state: DemoState, width: int) -> Text:
    done = width * len(state.steps) // max(1, state.steps_planned)
    return Text.assemble(("━" * done, "green"), ("━" * (width - done), "dim"))


def _panel(title: str, inside: RenderableType) -> Panel:
    return Panel(inside, title=Text(title, "dim"), title_align="left", box=ROUNDED, border_style="dim", padding=(0, 1))


# --- the matrix ------------------------------------------------------------------------------------------------------


def _matrix(state: DemoState, now_ms: float, width: int) -> Panel:
    owners = state.tracker.owners()
    cell = 3 if _LABEL_COLUMNS + 3 * len(owners) + 10 <= width - 4 else 2
    lines = list(_headings(owners, cell))
    for index, (name, health) in enumerate(state.health.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        line = Text(no_wrap=True, overflow="crop")
        line.append(f"{name:<4}", colour if health is Health.LIVE else "dim")
        line.append(f"{health:<{_LABEL_COLUMNS - 4}}", _HEALTH[health])
        n_owned = 0
        for queue, queue_owners in _with_gaps(owners):
            owned = name in map(short, queue_owners)
            n_owned += owned
            fresh = now_ms - state.moved_ms.get(queue, 0.0) < FLASH_MS if queue else False
            style = f"bold bright_white on {colour}" if fresh else colour
            line.append("■" if owned else "·" if queue else " ", style if owned else "dim")
            line.append(" " * (cell - 1))
        line.append(f" {n_owned or '':>2}", "dim")
        lines.append(line)
    lines.append(_orphans(owners, cell))
    return _panel("queues of topic orders, consumers of group demo", Group(*lines))


def _with_gaps(owners: dict[MessageQueue, tuple[str, ...]]) -> Iterator[tuple[MessageQueue | None, tuple[str, ...]]]:
    """The queues in order, with a gap between two brokers."""
    for number, (_, queues) in enumerate(groupby(owners, key=lambda queue: queue.broker_name)):
        if number:
            yield None, ()
        for queue in queues:
            yield queue, owners[queue]


def _headings(owners: dict[MessageQueue, tuple[str, ...]], cell: int) -> Iterator[Text]:
    brokers = Text(" " * _LABEL_COLUMNS, no_wrap=True, overflow="crop")
    ids = Text(" " * _LABEL_COLUMNS, "dim", no_wrap=True, overflow="crop")
    for broker, queues in groupby(owners, key=lambda queue: queue.broker_name):
        numbers = [queue.queue_id for queue in queues]
        brokers.append(f"{broker[: cell * len(numbers)]:<{cell * (len(numbers) + 1)}}", "bold")
        # In the narrow form there is room only for the last digit.
        ids.append("".join(f"{str(n)[-(cell - 1) :]:<{cell}}" for n in numbers) + " " * cell)
    yield brokers
    yield ids


def _orphans(owners: dict[MessageQueue, tuple[str, ...]], cell: int) -> Text:
    line = Text(no_wrap=True, overflow="crop")
    orphans = sum(not queue_owners for queue, queue_owners in _with_gaps(owners) if queue)
    line.append(f"{'no owner':<{_LABEL_COLUMNS}}", "bold red" if orphans else "dim")
    for queue, queue_owners in _with_gaps(owners):
        line.append("■" if queue and not queue_owners else " ", "red")
        line.append(" " * (cell - 1))
    line.append(f" {orphans or '':>2}", "bold red")
    return line


# --- counters, steps and notes ---------------------------------------------------------------------------------------


def _counters(state: DemoState) -> Text:
    counted, totals = state.messages, state.tracker.figures.totals()
    line = Text(" ", no_wrap=True, overflow="crop")
    for label, value, alarming in (
        ("sent", f"{counted.sent:,}", False),
        ("received", f"{counted.received:,}", False),
        ("lag", f"{counted.lost:,}", counted.lost >= LAG_ALARM),
        ("duplicates", f"{counted.duplicates:,}", False),
        ("two owners", f"{totals.double_ms:,.0f} ms", totals.double_ms > 0),
        ("no owner", f"{totals.orphan_ms:,.0f} ms", False),
    ):
        line.append(f"{label} ", "dim")
        line.append(f"{value}  ", "bold yellow" if alarming else "bold")
    return line


def _steps(state: DemoState) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for number in range(state.steps_planned):
        text.append("\n" if number else "")
        if number < len(state.steps):
            step = state.steps[number]
            elapsed = "never" if step.converged_ms is None else milliseconds(step.converged_ms)
            text.append(f"{step.step:<18}")
            text.append(f"{elapsed:>9}", "bold red" if step.converged_ms is None else "bold green")
            text.append(f"{step.queues_moved:>4} moved  {words(step.cause):<23}  {step.trigger}", "dim")
    return text


def _notes(state: DemoState, lines: int) -> Text:
    shown_notes = list(state.notes)[-lines:]
    text = Text(no_wrap=True, overflow="ellipsis")
    for number in range(lines):
        text.append("\n" if number else "")
        if number < len(shown_notes):
            _note(text, shown_notes[number], state.started_ms)
    return text


def _note(text: Text, note: Note, started_ms: float) -> None:
    text.append(f"{(note.t_ms - started_ms) / 1000:7.3f}  ", "dim")
    text.append(note.text, _TONE[note.tone])


@contextmanager
def live_view(console: Console) -> Iterator[Live]:
    """Use the whole terminal while the block runs, and restore it afterwards."""
    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        yield live


async def keep_drawing(live: Live, state: DemoState) -> None:
    """Draw the state `FRAMES_PER_S` times a second. Cancellation: harmless."""
    while True:
        state.tracker.figures.advance(state.clock_ms())
        live.update(frame(state, *live.console.size), refresh=True)
        await anyio.sleep(1 / FRAMES_PER_S)
