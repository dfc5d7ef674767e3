from __future__ import annotations

import errno
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import typer

from model.errors import ConfigError, InvalidParameter, MessageIllegal, RlabError, TopicNotExist
from process.runtime import exit_with_error, report_bug, run, wait_for_eof, wait_until


def raising(error: BaseException) -> Callable[[], Coroutine[Any, Any, None]]:
    async def main() -> None:
        raise error

    return main


async def stopped_by(number: int, cleaned_up: list[str]) -> None:
    try:
        os.kill(os.getpid(), number)
        await anyio.sleep_forever()
    finally:
        await anyio.lowlevel.checkpoint()  # clean-up may wait: it is cancelled once, and not again and again
        cleaned_up.append("done")


def test_what_the_command_returns_comes_back() -> None:
    async def main() -> int:
        return 7

    assert run(main) == 7


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TopicNotExist("topic 't' does not exist"), "error: topic 't' does not exist\n"),
        (ExceptionGroup("", [ExceptionGroup("", [TopicNotExist("inner")])]), "error: inner\n"),
        (OSError(errno.ENOSPC, "No space left on device"), "error: No space left on device\n"),
        (FileNotFoundError(errno.ENOENT, "No such file", "x.txt"), "error: x.txt: No such file\n"),
        (
            ExceptionGroup("", [KeyError("k")]),
            "error: unexpected KeyError: 'k'; RLAB_DEBUG=1 shows the traceback\n",
        ),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(
    error: BaseException, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as exit_:
        run(raising(error))
    assert exit_.value.exit_code == 1
    assert capsys.readouterr() == ("", text)


@pytest.mark.parametrize("kind", [ConfigError, InvalidParameter, MessageIllegal])
def test_what_is_wrong_in_itself_has_the_exit_code_of_the_parser(kind: type[RlabError]) -> None:
    for error in (kind("wrong"), ExceptionGroup("", [kind("wrong")])):
        with pytest.raises(typer.Exit) as exit_:
            run(raising(error))
        assert exit_.value.exit_code == 2
        with pytest.raises(typer.Exit) as exit_, exit_with_error():
            raise kind("wrong")
        assert exit_.value.exit_code == 2


def test_anyone_who_repairs_the_program_gets_the_error_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLAB_DEBUG", "1")
    with pytest.raises(TopicNotExist):
        run(raising(TopicNotExist("t")))


def test_a_bug_is_one_line_too_unless_someone_wants_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyError) as caught:
        run(raising(KeyError("k")))
    report_bug(KeyError, caught.value, caught.tb)
    assert capsys.readouterr().err == "error: unexpected KeyError: 'k'; RLAB_DEBUG=1 shows the traceback\n"
    monkeypatch.setenv("RLAB_DEBUG", "1")
    report_bug(KeyError, caught.value, caught.tb)
    assert capsys.readouterr().err.startswith("Traceback")


def test_ctrl_c_before_a_command_has_begun_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RLAB_DEBUG", raising=False)
    report_bug(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == "error: stopped before it was finished\n"


def test_a_command_may_say_its_own_exit_code_and_usage_error() -> None:
    with pytest.raises(typer.BadParameter):
        run(raising(typer.BadParameter("no")))
    with pytest.raises(typer.Exit) as exit_:
        run(raising(typer.Exit(3)))
    assert exit_.value.exit_code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("endless", "code"), [(True, 0), (False, 1)])
def test_a_signal_lets_the_command_clean_up(
    number: int, endless: bool, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned_up: list[str] = []
    with pytest.raises(typer.Exit) as exit_:
        run(lambda: stopped_by(number, cleaned_up), endless=endless)
    assert exit_.value.exit_code == code
    assert cleaned_up == ["done"]
    assert capsys.readouterr().err == ("" if endless else "error: stopped before it was finished\n")


def test_signals_mean_what_they_meant_before_when_the_command_is_over() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(typer.Exit):
        run(lambda: stopped_by(signal.SIGTERM, []), endless=True)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_command_collects_all_garbage_seldom_and_the_rest_of_the_process_as_before() -> None:
    before = gc.get_threshold()

    async def main() -> int:
        containers_that_stay = 1
        for threshold in gc.get_threshold():
            containers_that_stay *= threshold
        return containers_that_stay

    assert run(main) >= 10_000_000
    assert gc.get_threshold() == before


def test_the_end_of_a_pipe_is_noticed_and_what_came_before_is_not_it() -> None:
    reading, writing = os.pipe()

    async def main() -> str:
        os.write(writing, b"still here")
        with anyio.move_on_after(0.01):
            await wait_for_eof(reading)
            return "too early"
        os.close(writing)
        await wait_for_eof(reading)
        return "closed"

    assert run(main) == "closed"
    os.close(reading)


def test_a_wait_ends_with_its_condition_or_its_time() -> None:
    looks = iter([False, False, True])

    async def main() -> None:
        with anyio.fail_after(5):
            await wait_until(lambda: next(looks), 60, 0.001)
            await wait_until(lambda: False, 0.01, 0.001)

    run(main)
    assert next(looks, None) is None
