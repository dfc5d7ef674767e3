from __future__ import annotations

import os
from pathlib import Path

from cli.trace.make_report import SHORT_SPARK_JOB_BYTES, is_short_spark_job, page_path


def test_files_of_a_hundred_thousand_events_are_a_short_trace_and_a_topic_a_folder_or_more_of_them_is_none(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(b"")
    os.truncate(first, SHORT_SPARK_JOB_BYTES)
    second.write_bytes(b"{}")
    assert is_short_spark_job([first])
    assert not is_short_spark_job([first, second])
    assert not is_short_spark_job([second, tmp_path])
    assert not is_short_spark_job([])


def test_the_page_is_named_by_its_whole_path(tmp_path: Path) -> None:
    assert page_path(tmp_path / "out" / ".." / "out") == tmp_path / "out" / "index.html"
