from __future__ import annotations

from xml.etree import ElementTree

from tests.unit.traces.check.histories import PLANTED, checkers, clean, numbered
from traces.check.page import draw_anomaly, make_page


def test_the_page_has_a_drawing_of_each_anomaly_with_a_dot_for_each_event() -> None:
    story = clean()
    for plant in list(PLANTED)[:4]:
        plant(story)
    verdict = checkers(numbered(story))
    page = make_page(verdict, "a trace <of> ours")
    assert "a trace &lt;of&gt; ours: no" in page
    assert page.count("<svg") == len(verdict.anomalies) > 1
    for anomaly in verdict.anomalies:
        drawing = ElementTree.fromstring(draw_anomaly(anomaly))
        assert len(drawing.findall("g")) == len(anomaly.witness)
        assert anomaly.rule.value in page


def test_the_page_of_a_good_history_has_no_drawing() -> None:
    assert "<svg" not in make_page(checkers(numbered(clean())), "x")
