"""Draws docs/terminal.svg, the picture at the head of the README, from a run of the commands that it shows.

    python -m tools.terminal_picture > docs/terminal.svg

It runs a cluster with two consumers, kills one of them, and asks who has which queue and why, each by the command that
the picture has. The output is the command's own, without empty lines, queues of the retry topic and the legend, and
lines are cut at the edge, with `…` in the middle of a word.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path
from typing import NamedTuple

COLUMNS = 113
CHAR_PX, LINE_PX, MARGIN_PX, TOP_PX = 8.4, 19, 18, 48
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
BACK, TEXT, DIM, GREEN, YELLOW = "#16181d", "#c9ced6", "#8b949e", "#6cc17a", "#e3c36a"
WAIT_S = 30.0
TITLE = "rlab: a consumer is killed, its queues have a new owner, and the reason is shown"
SHOW, WHY = "rlab group show billing", "rlab group why orders broker-b:1"
_LEFT_OUT = re.compile(r"\s*$| *%RETRY|●|group billing$")
_COLOURS = (
    (re.compile(r"^\$ .*"), YELLOW),
    (re.compile(r"●|^lag 0; converged"), GREEN),
    (re.compile(r"─+|█+|(?<= )(client id|queue  +c1.*|time \(UTC\).*)"), DIM),
)


class Part(NamedTuple):
    """A piece of a line that has one colour."""

    column: int
    text: str
    colour: str


def main() -> None:
    """Run the commands, and print the picture."""
    sys.stdout.write(svg_of([each for line in _session() for each in fitted(line)]))


def _session() -> Iterator[str]:
    """The lines of the terminal."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_process(folder / "cluster", "rlab cluster --brokers 2 --port 0"))
        started = _until(lambda: (folder / "cluster").read_text(encoding="utf-8"), "cluster is ready")
        os.environ["RLAB_NAMESRV"] = started.split()[-1]
        _output("rlab topic create orders --queues 2")
        consume = "rlab consume orders --group billing --from earliest"
        stack.enter_context(_process(folder / "first", consume))
        _until(lambda: _output(SHOW), "lag 0; converged")
        second = stack.enter_context(_process(folder / "second", consume))
        _until(lambda: _output(SHOW), "3        3", "lag 0; converged")
        _output("rlab produce orders --count 1000")
        yield from [f"$ {SHOW}", *_until(lambda: _output(SHOW), "250", "lag 0; converged").splitlines(), ""]
        yield f"$ kill -9 {second.pid}"
        second.kill()
        yield from [f"$ {SHOW}", *_until(lambda: _output(SHOW), "6        6", "lag 0; converged").splitlines(), ""]
        why = _until(lambda: _output(WHY), "lost its connection", "first pull")
        yield from [f"$ {WHY}", *why.splitlines()]


def fitted(line: str) -> list[str]:
    """A line as the picture has it: left out, or broken or cut at the edge."""
    if not line:
        return [""]
    if _LEFT_OUT.match(line):
        return []
    line = line.rstrip()
    if line.startswith("group "):  # a sentence
        return textwrap.wrap(line, COLUMNS)
    if set(line[COLUMNS - 1 : COLUMNS + 1]) & set(" ─"):  # between two words, or in a rule
        line = line[:COLUMNS].rstrip()
    return [line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"]


def parts_of(line: str) -> list[Part]:
    """A line in pieces of one colour."""
    colours = [TEXT] * len(line)
    for pattern, colour in _COLOURS:
        for match in pattern.finditer(line):
            colours[match.start() : match.end()] = [colour] * len(match[0])
    pieces = re.finditer(r"(\S+(?: \S+)*)", line)
    parts: list[Part] = []
    for piece in pieces:
        begin = piece.start()
        for column in range(piece.start() + 1, piece.end() + 1):
            if column == piece.end() or colours[column] != colours[begin]:
                parts.append(Part(begin, line[begin:column], colours[begin]))
                begin = column
    return parts


def svg_of(lines: list[str]) -> str:
    """The picture: a part has its column and its length, so that the columns of a table hold in every font."""
    width, height = 2 * MARGIN_PX + COLUMNS * CHAR_PX, TOP_PX + len(lines) * LINE_PX + MARGIN_PX - LINE_PX // 2
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{TITLE}">',
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="{BACK}"/>',
        *(f'<circle cx="{x}" cy="17" r="5.5" fill="#3a3f47"/>' for x in (20, 38, 56)),
        f'<g font-family="{FONT}" font-size="14">',
    ]
    for number, line in enumerate(lines):
        for part in parts_of(line):
            x, length = MARGIN_PX + part.column * CHAR_PX, len(part.text) * CHAR_PX
            drawn.append(
                f'<text x="{x:.1f}" y="{TOP_PX + number * LINE_PX}" textLength="{length:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" fill="{part.colour}">{escape(part.text)}</text>'
            )
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def _output(command: str) -> str:
    done = subprocess.run(_real(command), capture_output=True, text=True, check=False)
    return done.stdout


def _real(command: str) -> list[str]:
    return [sys.executable, "-m", *command.split()]


@contextmanager
def _process(output: Path, command: str) -> Iterator[subprocess.Popen[bytes]]:
    with output.open("wb") as file, subprocess.Popen(_real(command), stdout=file, stderr=file) as process:
        try:
            yield process
        finally:
            process.terminate()


def _until(look: Callable[[], str], *words: str) -> str:
    """Look until the text has all of these words; returns the text. Raises: TimeoutError."""
    pause, text = threading.Event(), ""
    for _ in range(int(WAIT_S / 0.2)):
        text = look()
        if all(word in text for word in words):
            return text
        pause.wait(0.2)
    raise TimeoutError(f"{words} did not come in {WAIT_S:g} s: {text}")


if __name__ == "__main__":
    main()
