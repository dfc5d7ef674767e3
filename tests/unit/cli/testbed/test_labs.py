"""The lessons: each can be done, and none is done before."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.testbed.labs import ANSWERS, PAGE, PROGRAMME, SHIPPED, TRACE, still_wrong
from testbed.runs.lesson import make_template, parse_lesson
from traces.check.reading import parse_event

LESSONS = sorted(path.parent for path in SHIPPED.glob("*/lab.toml"))


def test_there_are_fifteen_lessons_of_ten_to_thirty_minutes() -> None:
    lessons = [parse_lesson(folder.name, (folder / "lab.toml").read_text(encoding="utf-8")) for folder in LESSONS]
    assert len(lessons) == 15
    assert all(10 <= lesson.minutes <= 30 for lesson in lessons)
    listed = json.loads(CliRunner().invoke(app, ["lab", "list", "--json"]).stdout)["lessons"]
    assert [each["name"] for each in listed] == [folder.name for folder in LESSONS]


@pytest.mark.simulation
@pytest.mark.parametrize("folder", LESSONS, ids=lambda folder: folder.name)
def test_a_lesson_is_done_with_its_solution_and_not_before(folder: Path, tmp_path: Path) -> None:
    lesson = parse_lesson(folder.name, (folder / "lab.toml").read_text(encoding="utf-8"))
    shutil.copyfile(folder / PROGRAMME, tmp_path / PROGRAMME)
    (tmp_path / ANSWERS).write_text(make_template(lesson), encoding="utf-8")
    wrong = still_wrong(lesson, folder, tmp_path)
    assert len(wrong) >= len(lesson.asks) + (lesson.repair is not None)
    for solved in (folder / "solution").iterdir():
        shutil.copyfile(solved, tmp_path / solved.name)
    assert still_wrong(lesson, folder, tmp_path) == []


@pytest.mark.simulation
def test_a_lesson_is_started_checked_and_begun_again(tmp_path: Path) -> None:
    options = ["--work", str(tmp_path)]
    started = CliRunner().invoke(app, ["lab", "start", "1", *options])
    assert started.exit_code == 0, started.output
    assert "# Lesson on routes" in started.stdout
    work = tmp_path / "01-route"
    links = re.findall(r"\]\(([^)#]+)", (work / PAGE).read_text(encoding="utf-8"))
    assert [link for link in links if not (work / link).is_file()] == [], "read from the folder of the work"
    assert len(links) > 1
    assert parse_event((work / TRACE).read_bytes().splitlines()[0]).node
    assert "exists: go on with it" in CliRunner().invoke(app, ["lab", "start", "route", *options]).stderr
    (work / ANSWERS).write_text('trigger = "TIMER"\n', encoding="utf-8")
    checked = CliRunner().invoke(app, ["lab", "check", "1", *options])
    assert checked.exit_code == 1
    assert "trigger: 'TIMER' is not right." in checked.stdout
    assert "moves: no answer yet." in checked.stdout
    assert CliRunner().invoke(app, ["lab", "reset", "1", "--yes", *options]).exit_code == 0
    assert 'trigger = ""' in (work / ANSWERS).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lab", "start", "99"], "no lesson '99'; there are 01-route"),
        (["lab", "check", "1", "--work", "gone"], "begin with rlab lab start 1"),
        (["lab", "list", "--labs", "gone"], "gone has no lessons"),
    ],
)
def test_what_is_not_there_is_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_folder_that_is_no_lesson_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "01-route").mkdir()
    (tmp_path / "01-route" / "mine.txt").write_text("x", encoding="utf-8")
    done = CliRunner().invoke(app, ["lab", "reset", "1", "--yes", "--work", str(tmp_path)])
    assert done.exit_code == 2
    assert (tmp_path / "01-route" / "mine.txt").exists()
