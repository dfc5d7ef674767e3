"""Draws `sequenceDiagram`: messages between participants, from top to bottom. Pure.

participant P as producer       a column; without `as`, its name
P->>B: SEND_MESSAGE             a message; with -->>, an answer or a notification
Note over P,B: stored           what happens at one of them, or at all between two
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.site.diagrams.marks import LINE_PX, NotDrawable, box, label, picture, text, way, width_of, wrapped

_PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?")
_MESSAGE = re.compile(r"(\w+)(-{1,2})>>(\w+): (.+)")
_NOTE = re.compile(r"Note over (\w+)(?:, ?(\w+))?: (.+)")
_LABEL_CHARS, _NOTE_CHARS = 30, 32
_GAP_PX, _HEAD_PX, _SPACE_PX = 150.0, 34.0, 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A message, or a note if it has no direction: the columns from which and to which it goes, and its lines."""

    start: int
    end: int
    lines: tuple[str, ...]
    dashed: bool = False
    is_note: bool = False

    @property
    def height(self) -> float:
        """The room that it needs from top to bottom, in pixels."""
        return len(self.lines) * LINE_PX + _SPACE_PX + (6 if self.is_note else 4)


def draw_sequence(lines: Iterable[str]) -> str:
    """Return the element of a page.

    Raises:
        NotDrawable: a line is not one of the three kinds, or names an unknown participant.
    """
    names: dict[str, str] = {}
    steps: list[Step] = []
    for line in lines:
        if match := _PARTICIPANT.fullmatch(line):
            names[match[1]] = match[2] or match[1]
        else:
            steps.append(_step(line, list(names)))
    titles = list(names.values())
    columns = _columns(titles, steps)
    notes = [
        width_of(step.lines) / 2 + 14 for step in steps if step.is_note and step.start == step.end == len(titles) - 1
    ]
    width = columns[-1] + max([70.0, *notes])
    height = _HEAD_PX + sum(step.height for step in steps) + 24
    spoken = "; ".join(_spoken(step, titles) for step in steps)
    return picture(width, height, spoken, _marks(titles, columns, steps, height))


def _step(line: str, names: list[str]) -> Step:
    message, note = _MESSAGE.fullmatch(line), _NOTE.fullmatch(line)
    try:
        if message:
            start, end = names.index(message[1]), names.index(message[3])
            lines = tuple(wrapped(message[4], _LABEL_CHARS * max(1, abs(end - start))))
            return Step(start=start, end=end, lines=lines, dashed=message[2] == "--")
        if note:
            start, end = names.index(note[1]), names.index(note[2] or note[1])
            return Step(start=start, end=end, lines=tuple(wrapped(note[3], _NOTE_CHARS)), is_note=True)
    except ValueError:
        raise NotDrawable(f"{line!r} names a participant that is not declared before") from None
    raise NotDrawable(f"{line!r} is neither a participant, nor a message (A->>B: text), nor a note (Note over A: text)")


def _columns(titles: list[str], steps: list[Step]) -> list[float]:
    """The middles of the columns, wide enough for what stands between two of them."""
    gaps = [
        max(_GAP_PX, width_of([left]) / 2 + width_of([right]) / 2 + 40) for left, right in itertools.pairwise(titles)
    ]
    for step in steps:
        low, high = sorted((step.start, step.end))
        if high == low + 1:
            gaps[low] = max(gaps[low], width_of(step.lines) + 36)
        elif high == low and step.is_note:
            for gap in range(max(0, low - 1), min(len(gaps), low + 1)):
                gaps[gap] = max(gaps[gap], width_of(step.lines) / 2 + 30)
    first = max(
        [60.0, *(width_of(step.lines) / 2 + 14 for step in steps if step.is_note and step.start == step.end == 0)]
    )
    return [first + sum(gaps[:n]) for n in range(len(titles))]


def _marks(titles: list[str], columns: list[float], steps: list[Step], height: float) -> Iterator[str]:
    for x, title in zip(columns, titles, strict=True):
        yield f'<line x1="{x:.1f}" y1="{_HEAD_PX}" x2="{x:.1f}" y2="{height - 6:.1f}" class="life"/>'
        yield box(x, _HEAD_PX / 2 + 1, width_of([title]) + 26, _HEAD_PX - 4) + text(x, _HEAD_PX / 2 + 1, [title])
    y = _HEAD_PX + 10
    for step in steps:
        y += step.height
        start, end = columns[step.start], columns[step.end]
        middle, tall = (start + end) / 2, len(step.lines) * LINE_PX
        if step.is_note:
            wide = max(width_of(step.lines) + 20, abs(end - start) + 60)
            top = y - tall / 2 - 4
            yield box(middle, top, wide, tall + 8, "back") + box(middle, top, wide, tall + 8, "note")
            yield text(middle, top, step.lines)
        else:
            yield label(middle, y - tall / 2 - 4, step.lines)
            yield way(f"M{start:.1f} {y:.1f}H{end:.1f}", dashed=step.dashed)


def _spoken(step: Step, titles: list[str]) -> str:
    content = " ".join(step.lines)
    if not step.is_note:
        return f"{titles[step.start]} to {titles[step.end]}: {content}"
    return f"{' and '.join(dict.fromkeys((titles[step.start], titles[step.end])))}: {content}"
