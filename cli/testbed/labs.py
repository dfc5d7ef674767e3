"""`rlab lab`: list, start, check and reset lessons."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.complete import with_prefix
from cli.options import Config, Json, Yes, confirm
from model.errors import ConfigError
from process.output import print_json, print_line, print_note, print_table
from process.runtime import FAILED, exit_with_error
from testbed.runs.lesson import Lesson, changed_too_much, make_template, parse_lesson, too_many_moves, wrong_answers

if TYPE_CHECKING:
    from model.events import Event
    from testbed.simulation.engine.run import Outcome

app = typer.Typer(help="Lessons: a cluster with a fault in it, a task, and a check.", no_args_is_help=True)

SHIPPED = Path(__file__).resolve().parents[2] / "docs" / "labs"
"""Beside the packages, in a checkout and where it is installed."""
PAGE, PROGRAMME, ANSWERS, TRACE, LAB = "README.md", "programme.toml", "answers.toml", "trace.jsonl", "lab.toml"


def complete_lesson(incomplete: str) -> list[str]:
    """The lessons whose names begin so, for completion."""
    return with_prefix(incomplete, sorted(path.parent.name for path in SHIPPED.glob(f"*/{LAB}")))


LessonName = Annotated[
    str,
    typer.Argument(metavar="LESSON", help="Its number or name.", show_default=False, autocompletion=complete_lesson),
]
Labs = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder with the lessons.", show_default="those of the project")
]
Work = Annotated[Path, typer.Option(metavar="DIR", help="Folder of your own work.")]


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="lab")


@app.command("list")
def list_lessons(labs: Labs = SHIPPED, work: Work = Path("labs"), json: Json = False, config: Config = None) -> None:
    """List the lessons, and which of them you have started.

    Example: rlab lab list
    """
    with exit_with_error():
        lessons = _lessons(labs)
    rows = [(each.name, each.title, each.minutes, (work / each.name).is_dir()) for each in lessons]
    if json:
        names = ("name", "title", "minutes", "started")
        print_json({"lessons": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    print_table(
        ["lesson", "title", ">minutes", ""],
        [(name, title, minutes, "started" if started else "") for name, title, minutes, started in rows],
    )


@app.command()
def start(lesson: LessonName, labs: Labs = SHIPPED, work: Work = Path("labs"), config: Config = None) -> None:
    """Copy a lesson into your folder, and run its cluster.

    The run is simulated and takes a second. Its events are in trace.jsonl, for rlab check and rlab group why --trace.

    Example: rlab lab start 1
    """
    with exit_with_error():
        chosen = _lesson(labs, lesson)
        folder = work / chosen.name
        if folder.exists():
            raise ConfigError(f"{folder} exists: go on with it, or begin again with rlab lab reset {lesson}")
        _begin(labs, chosen, folder)
    _print_begin(folder)


@app.command()
def reset(
    lesson: LessonName, labs: Labs = SHIPPED, work: Work = Path("labs"), yes: Yes = False, config: Config = None
) -> None:
    """Throw your work on a lesson away, and begin again.

    Example: rlab lab reset 1 --yes
    """
    with exit_with_error():
        chosen = _lesson(labs, lesson)
    folder = work / chosen.name
    confirm(f"Delete {folder}?", f"this deletes {folder}", yes=yes)
    with exit_with_error():
        if folder.exists():
            if not (folder / PROGRAMME).is_file():
                raise ConfigError(f"{folder} is not a lesson, so nothing was deleted")
            shutil.rmtree(folder)
        _begin(labs, chosen, folder)
    _print_begin(folder)


@app.command()
def check(lesson: LessonName, labs: Labs = SHIPPED, work: Work = Path("labs"), config: Config = None) -> None:
    """Say what is still wrong with your work on a lesson. Exit code 1 if anything is.

    Example: rlab lab check 1
    """
    with exit_with_error():
        chosen = _lesson(labs, lesson)
        folder = work / chosen.name
        if not folder.is_dir():
            raise ConfigError(f"{folder} does not exist: begin with rlab lab start {lesson}")
        wrong = still_wrong(chosen, labs / chosen.name, folder)
    for line in wrong:
        print_line(line)
    if wrong:
        raise typer.Exit(FAILED)
    print_line(f"done: {chosen.title}")


def still_wrong(lesson: Lesson, labs: Path, folder: Path) -> list[str]:
    """A line for each fault that is left; the programme is run if the lesson asks for a repair.

    Raises:
        ConfigError: a file is missing or cannot be read.
    """
    wrong = wrong_answers(lesson, _read(folder / ANSWERS)) if lesson.asks else []
    if lesson.repair is None:
        return wrong
    text = _read(folder / PROGRAMME)
    changed = changed_too_much(lesson.repair, _read(labs / PROGRAMME), text)
    if changed:
        return wrong + changed
    outcome, moves = _run(text, folder / TRACE)
    for finding in outcome.findings:
        wrong.append(f"the run still breaks a promise: {finding}")
    return wrong + too_many_moves(lesson.repair, moves)


def _begin(labs: Path, lesson: Lesson, folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copyfile(labs / lesson.name / PROGRAMME, folder / PROGRAMME)
    # The pages that it links to stay where they are.
    pages = Path(os.path.relpath(labs.parent, folder)).as_posix()
    text = _read(labs / lesson.name / PAGE).replace("](../../", f"]({pages}/")
    (folder / PAGE).write_text(text, encoding="utf-8")
    if lesson.asks:
        (folder / ANSWERS).write_text(make_template(lesson), encoding="utf-8")
    _run(_read(folder / PROGRAMME), folder / TRACE)


def _print_begin(folder: Path) -> None:
    print_line((folder / PAGE).read_text(encoding="utf-8"))
    print_note(f"your work is in {folder}: the commands above are for that folder, and rlab lab check is for this one")


def _run(text: str, trace: Path) -> tuple[Outcome, int]:
    """Run a programme, write its events, and count the queues that moved."""
    import logging

    from model.event_log import encode_events
    from testbed.simulation.engine.run import run_programme
    from testbed.simulation.engine.text import parse_programme
    from traces.figures.trace import TraceFigures

    logging.disable(logging.ERROR)  # clients log the effects of the faults all the time
    events: list[Event] = []
    try:
        outcome = run_programme(parse_programme(text), watch=events.append)
    finally:
        logging.disable(logging.NOTSET)
    trace.write_bytes(encode_events(events))
    figures = TraceFigures()
    for event in events:
        figures.feed(event)
    return outcome, sum(group.totals().moves for group in figures.groups.values())


def _lessons(labs: Path) -> list[Lesson]:
    folders = sorted(path.parent for path in labs.glob(f"*/{LAB}"))
    if not folders:
        raise ConfigError(f"{labs} has no lessons: a lesson is a folder with {LAB}, {PROGRAMME} and {PAGE}")
    return [parse_lesson(folder.name, _read(folder / LAB)) for folder in folders]


def _lesson(labs: Path, name: str) -> Lesson:
    lessons = _lessons(labs)
    for number, lesson in enumerate(lessons, 1):
        if name in (str(number), f"{number:02}", lesson.name, lesson.name.partition("-")[2]):
            return lesson
    raise ConfigError(f"no lesson {name!r}; there are {', '.join(lesson.name for lesson in lessons)}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
