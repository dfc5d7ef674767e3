from __future__ import annotations

from xml.etree import ElementTree

from tests.unit.traces.check.histories import PLANTED, checkers, clean, numbered
from traces.check.page import page_of, picture_of


def test_the_page_has_a_drawing_of_each_anomaly_with_a_dot_for_each_event() -> None:
    story = clean()
    for plant in list(PLANTED)[:4]:
        plant(story)
    verdict = checkers(numbered(story))
    page = page_of(verdict, "a trace <of> ours")
    assert "a trace &lt;of&gt; ours: no" in page
    assert page.count("<svg") == len(verdict.anomalies) > 1
    for anomaly in verdict.anomalies:
        drawing = ElementTree.fromstring(picture_of(anomaly))
        assert len(drawing.findall("g")) == len(anomaly.witness)
        assert anomaly.rule.value in page


def test_the_page_of_a_good_history_has_no_drawing() -> None:
    assert "<svg" not in page_of(checkers(numbered(clean())), "x")
