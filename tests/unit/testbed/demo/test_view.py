from __future__ import annotations

import io

import anyio
import pytest
from rich.console import Console

from client.allocate import AllocateMessageQueueAveragely
from model.events import Event, EventKind
from model.message_queue import MessageQueue
from testbed.demo.state import DemoState, Health
from testbed.demo.view import FLASH_MS, frame, keep_drawing, live_view
from testbed.simulation.checks.ownership import RebalanceStep
from testbed.simulation.kernel.run import Simulation, run_simulation

NAMES = ("c1", "c2", "c3")


class Screen:
    """A state with 8 queues on each of two brokers, and what a terminal shows of it."""

    def __init__(self, queues: int = 8) -> None:
        self.now_ms = 1_000_000.0
        self.state = DemoState("demo", "orders", AllocateMessageQueueAveragely(), NAMES, lambda: self.now_ms)
        self.state.steps_planned = 11
        self.queues = [MessageQueue("orders", f"broker-{name}", n) for name in "ab" for n in range(queues)]
        self.state.tracker.expect(["127.0.0.1@c1"], self.queues, self.now_ms)

    def acquires(self, name: str, *queues: MessageQueue) -> None:
        for queue in queues:
            event = Event(self.now_ms, "n", 1, EventKind.QUEUE_ACQUIRED, "", "demo", *queue, f"127.0.0.1@{name}", 1)
            self.state.event(event)

    def lines(self, width: int = 80, height: int = 24) -> list[str]:
        file = io.StringIO()
        Console(file=file, width=width, height=height).print(frame(self.state, width, height), end="")
        return file.getvalue().splitlines()

    def row(self, start: str, **size: int) -> str:
        return next(line for line in self.lines(**size) if line.startswith(f"│ {start}"))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 40), (100, 30), (120, 40), (200, 60)])
@pytest.mark.parametrize("queues", [8, 12])
@pytest.mark.parametrize("notes", [0, 3, 100])
def test_a_frame_fills_the_terminal_and_no_more(width: int, height: int, queues: int, notes: int) -> None:
    screen = Screen(queues)
    for n in range(notes):
        screen.state.add_note(f"note {n} " + "long " * 60)
    lines = screen.lines(width, height)
    assert len(lines) == height
    assert {len(line) for line in lines if "│" in line} == {width}
    assert max(map(len, lines)) <= width


def test_the_matrix_shows_who_has_which_queue_and_which_no_one_has() -> None:
    screen = Screen()
    screen.state.health["c1"] = Health.LIVE
    screen.state.health["c2"] = Health.SILENT
    screen.acquires("c1", *screen.queues[:3])
    screen.acquires("c2", screen.queues[8])
    assert screen.row("c1").split() == ["│", "c1", "live", *"■■■·····", *"········", "3", "│"]
    assert screen.row("c2").split() == ["│", "c2", "silent", *"········", *"■·······", "1", "│"]
    assert screen.row("c3").split() == ["│", "c3", "not", "yet", *"········", *"········", "│"]
    assert screen.row("no owner  ").split() == ["│", "no", "owner", *"■■■■■", *"■■■■■■■", "12", "│"]
    columns = [index for index, letter in enumerate(screen.row("c1")) if letter == "■"]
    heading = screen.lines()[4]
    assert [heading[index] for index in columns] == ["0", "1", "2"]


def test_twenty_four_queues_fit_eighty_columns() -> None:
    screen = Screen(12)
    screen.acquires("c1", *screen.queues)
    assert screen.row("c1").count("■") == 24
    assert screen.lines()[4].split() == ["│", *"012345678901", *"012345678901", "│"]
    assert "10 11" in screen.lines(width=120)[4]


def test_a_queue_that_has_just_moved_is_drawn_differently_for_a_moment() -> None:
    screen = Screen()
    screen.state.health["c1"] = Health.LIVE
    screen.acquires("c1", screen.queues[0])

    def codes() -> str:
        file = io.StringIO()
        console = Console(file=file, width=80, height=24, force_terminal=True, color_system="256")
        console.print(frame(screen.state, 80, 24), end="")
        return next(line for line in file.getvalue().splitlines() if "■" in line)

    fresh = codes()
    screen.now_ms += FLASH_MS + 1
    assert codes() != fresh


def test_the_counters_and_the_step_are_shown() -> None:
    screen = Screen()
    screen.state.begin_step("c3 is cut off")
    for number in range(1_234):
        screen.state.acknowledged(0, number)
    for number in range(1_200):
        screen.state.received(0, number)
    screen.state.received(0, 0)
    text = "\n".join(screen.lines())
    assert "step 1 of 11  c3 is cut off" in text
    assert "sent 1,234  received 1,200  lag 34  duplicates 1  two owners 0 ms" in text


def test_the_newest_notes_are_at_the_end() -> None:
    screen = Screen()
    for n in range(50):
        screen.state.add_note(f"note {n};")
    lines = screen.lines()
    assert "note 49;" in lines[-2]
    assert "note 48;" in lines[-3]


def test_a_high_terminal_also_shows_the_steps_that_ended() -> None:
    screen = Screen()
    for name, converged_ms in (("c1 starts", 12.3), ("c2 starts", None)):
        screen.state.steps.append(
            RebalanceStep(
                step=name,
                cause="MEMBER_JOIN",
                trigger="NOTIFY+START",
                members=2,
                queues_moved=8,
                noticed_ms=1.0,
                converged_ms=converged_ms,
            )
        )
    assert "rebalances" not in "\n".join(screen.lines(height=35))
    assert screen.row("c1 starts", height=36).split()[1:-1] == (
        ["c1", "starts", "12", "ms", "8", "moved", "member", "join", "NOTIFY+START"]
    )
    assert "never" in screen.row("c2 starts", height=36)
    assert "step 3 of 11" in screen.lines()[0]


def test_the_view_is_drawn_again_and_again_and_then_the_terminal_is_as_it_was() -> None:
    screen = Screen()
    file = io.StringIO()
    console = Console(file=file, width=80, height=24, force_terminal=True)

    async def main(simulation: Simulation) -> None:
        with live_view(console) as live, anyio.move_on_after(0.35):
            await keep_drawing(live, screen.state)

    run_simulation(main)
    drawn = file.getvalue()
    assert drawn.count(" events ") == 4
    assert drawn.startswith("\x1b[?1049h")
    assert "\x1b[?1049l" in drawn.rpartition(" events ")[2]
