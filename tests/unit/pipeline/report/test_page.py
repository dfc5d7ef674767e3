from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from pipeline.report.data import MOST_INTERVALS, read_report
from pipeline.report.page import MOST_GROUPS, page
from tests.unit.pipeline.report.report_tables import write

VOID = {"meta", "br", "i/", "rect", "line", "path", "circle"}


class Checker(HTMLParser):
    """Fails at an element that is closed out of turn, and gathers the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attributes: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def read(text: str) -> str:
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    return re.sub(r"\s+", " ", checker.text)


def test_a_page_reports_what_happened_with_the_messages_that_show_it(tmp_path: Path) -> None:
    reported = read(page(read_report(write(tmp_path / "tables"))))
    for words in (
        "What rebalances cost group g<b>",
        "9 s from 1970-01-01 00:16:40 UTC: 20 events of 2 nodes. 4 events of these nodes are missing",
        "The group rebalanced 2 times",
        "The costliest moment was when c2 joined",
        "The group missed 26 messages that are damaged or missing and 5 messages that were deleted before it",
        "26 stored messages can no longer be read",
        "0.log t@b:1 50 to 69 20",
        "2 messages came to a second listener",
        "Up to 4 more may have come twice",
        "messages came twice, up to 4 more may have",
        "c1 to c2 300 ms",
        "c1 to c2 1,200 to 1,206",
        "c1 to c2 40 from 1,200",
        "The pictures show all queues.",
        "producer group half committed rolled back checks given up bank 1 1 0 0 0 shop<b> 9 5 2 4 1",
        "5.000 s c2 joined LOCK NOTIFY 2 1 1 400 ms 300 ms 2 to 6 40",
    ):
        assert words in reported


def test_a_page_lists_what_was_done_on_purpose(tmp_path: Path) -> None:
    text = page(read_report(write(tmp_path / "tables")))
    assert "<h3>Injected faults</h3><ul><li>cut client=&lt;c1&gt;, at b, from 1.5 s to 2.5 s</li></ul>" in text


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    text = page(read_report(write(tmp_path / "tables")))
    *_, script = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert not re.search(r"\b(src|href)\s*=|url\(", re.sub(r"<script[^>]*>.*?</script>", "", text, flags=re.DOTALL))
    assert not re.search(r"\bfetch\(|\bimport\b|XMLHttpRequest|EventSource", script)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'" in text
    assert "g&lt;b&gt;" in text


def test_names_are_text_in_the_data_of_the_pictures_too(tmp_path: Path) -> None:
    text = page(read_report(write(tmp_path / "tables", group="g</script><b>")))
    [data] = re.findall(r'<script type="application/json" id="pictures">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data)[0]["group"] == "g</script><b>"
    assert "</script><b>" not in text


def test_a_page_can_compare_two_runs(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "tables"))
    reported = read(page(report, report))
    assert "Compared with the other run" in reported
    assert "moves of queues 3 3 the same" in reported


def test_a_hundred_thousand_events_are_a_page_of_at_most_two_megabytes(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "tables"))
    [group] = report.groups
    one = group.intervals[-1]
    # At least five events are behind each ownership: dropped, granted, acquired, pulled, handed out.
    rows = [
        {**one, "queue_id": n % 1_000, "owner": f"10.0.0.{n % 100}@member-{n % 100}", "from_ms": n * 10.0 + 1.1}
        | {"to_ms": n * 10.0 + 9_001.1, "cause": f"member-{n // 40}/1430530000000{n // 40:03}", "ended": "revoked"}
        for n in range(MOST_INTERVALS)
    ]
    bands = [{**group.bands[0], "cause": f"member-{n}/1430530000000{n:03}"} for n in range(500)]
    queues = [f"t@b:{n}" for n in range(1_000)]
    many = replace(group, intervals=rows, bands=bands, queues=queues, queues_in_all=1_000)
    text = page(replace(report, groups=[many], span_ms=900_000.0))
    assert 500_000 < len(text.encode()) <= 2_000_000


def test_several_groups_have_sections_and_too_many_are_named(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "tables"))
    [group] = report.groups
    many = [replace(group, totals=replace(group.totals, group=f"g{n}")) for n in range(MOST_GROUPS + 2)]
    reported = read(page(replace(report, groups=many)))
    assert "Group g0 " in reported
    assert f"Not shown: g{MOST_GROUPS}, g{MOST_GROUPS + 1}." in reported
    assert "No member of any group had a queue" in read(page(replace(report, groups=[])))


def test_a_page_says_what_its_timeline_leaves_out(tmp_path: Path) -> None:
    report = read_report(write(tmp_path / "tables"))
    [group] = report.groups
    fewer = replace(group, queues_in_all=300)
    assert "The pictures show 2 of 300 queues, those with the longest pauses. " in read(
        page(replace(report, groups=[fewer]))
    )
    cut = replace(group, left_out=1_234)
    reported = read(page(replace(report, groups=[cut])))
    assert "The timeline ends at 9.000 s: 1,234 later intervals of this queue are not shown." in reported
