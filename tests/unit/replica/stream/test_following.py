"""The rules of a replica for the frames that it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica.stream.following import Acknowledgement, Following, LoadTables, MakeChanges, WriteLog
from replica.stream.frames import NO_BASE, FrameDamaged, LogFrame, TableFrame

NOTHING = LogFrame(
    epoch=3,
    number=1,
    n=-1,
    position=1_000,
    base=NO_BASE,
    log=b"",
    changes=b"",
    committed=-1,
    committed_position=0,
    min_position=0,
    master_position=1_000,
)
TABLES = TableFrame(epoch=3, number=1, n=7, part=0, is_last=True, chunk=b"all")


def log(number: int, position: int, data: bytes, base: int = 0, **changes: object) -> LogFrame:
    return replace(NOTHING, number=number, position=position, base=base, log=data, **changes)  # type: ignore[arg-type]


def test_the_frames_of_one_iteration_are_one_transaction_and_one_write_for_each_segment() -> None:
    following = Following(3, 1_000)
    frames: list[LogFrame | TableFrame] = [
        replace(TABLES, number=1),
        log(2, 1_000, b"ab", n=8, changes=b"c8"),
        log(3, 1_002, b"cd", n=9),
        log(4, 1_004, b"ef", base=1_004, n=10, changes=b"c10"),
    ]
    for crc, frame in enumerate(frames):
        following.accept(frame, crc)
    assert following.collect() == (
        [
            LoadTables(b"all", True, True),
            MakeChanges([b"c8", b"c10"]),
            WriteLog(1_000, 0, b"abcd"),
            WriteLog(1_004, 1_004, b"ef"),
        ],
        Acknowledgement(4, 3, 10),
    )
    assert (following.end_position, following.n) == (1_006, 10)
    assert following.collect() == ([], Acknowledgement(4, 3, 10))


def test_the_log_before_the_tables_is_written_before_they_are_loaded() -> None:
    following = Following(3, 1_000)
    following.accept(log(1, 1_000, b"ab"), 0)
    following.accept(replace(TABLES, number=2, is_last=False), 0)
    following.accept(replace(TABLES, number=3, part=1), 0)
    acts, done = following.collect()
    assert acts == [WriteLog(1_000, 0, b"ab"), LoadTables(b"all", True, False), LoadTables(b"all", False, True)]
    assert done.n == 7


def test_tables_that_are_sent_again_begin_with_the_log_from_the_files() -> None:
    following = Following(3, 1_000)
    following.accept(TABLES, 0)
    following.accept(log(2, 1_000, b"ab", n=-1), 0)
    assert following.n == -1
    following.accept(replace(TABLES, number=3, n=9), 0)
    assert following.n == 9


def test_a_segment_may_begin_behind_a_gap() -> None:
    following = Following(3, 1_000)
    following.accept(log(1, 1_500, b"ab", base=1_500), 0)
    assert following.end_position == 1_502


def test_a_frame_without_content_brings_the_commit_point() -> None:
    following = Following(3, 1_000)
    following.accept(replace(NOTHING, committed=5, committed_position=900, min_position=10, master_position=2_000), 0)
    assert following.collect() == ([], Acknowledgement(1, 0, -1))
    assert (following.committed, following.committed_position) == (5, 900)
    assert (following.min_position, following.master_position) == (10, 2_000)


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (replace(NOTHING, epoch=2), "is of epoch 2, and the stream of 3"),
        (replace(NOTHING, number=2), "frame 2 came after frame 0"),
        (log(1, 999, b"ab"), "is for position 999, the log ends at 1000"),
        (log(1, 1_001, b"ab"), "is for position 1001, the log ends at 1000"),
        (replace(NOTHING, position=1_500), "is for position 1500, the log ends at 1000"),
        (log(1, 1_000, b"ab", base=1_001), "is for position 1000 of a segment at 1001"),
        (log(1, 1_000, b"ab", base=-1), "is for position 1000 of a segment at -1"),
        (replace(NOTHING, base=0), "is for position 1000 of a segment at 0"),
        (log(1, 1_000, b"ab", n=1), "changes tables that were not sent"),
        (log(1, 1_000, b"ab", changes=b"c"), "changes tables that were not sent"),
        (replace(TABLES, part=1), "part 1 of the tables came after 0 parts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_frame_that_does_not_follow_the_one_before_it_is_refused(frame: LogFrame | TableFrame, text: str) -> None:
    following = Following(3, 1_000)
    with pytest.raises(FrameDamaged, match=text):
        following.accept(frame, 0)
    assert (following.number, following.end_position, following.collect()[0]) == (0, 1_000, [])


def test_a_flush_is_not_taken_back() -> None:
    following = Following(3, 1_000)
    following.accept(TABLES, 0)
    with pytest.raises(FrameDamaged, match="goes back from flush 7 to 6"):
        following.accept(replace(NOTHING, number=2, n=6), 0)
