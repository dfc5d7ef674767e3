from __future__ import annotations

import pytest

from model.events import Event, EventKind
from model.limits import RUN_SEQS
from traces.check.evidence import HOLE_REACH_MS, Evidence, is_end_of_node
from traces.check.verdict import MAX_ANOMALIES, MAX_WITNESS, Answer, Rule


def event(seq: int, t_ms: float = 0.0, node: str = "b", kind: str = EventKind.LOCK_GRANTED) -> Event:
    return Event(t_ms, node, seq, kind, group="g", topic="t", broker="b", queue_id=0)


def test_a_hole_in_the_numbers_of_a_node_counts_what_is_missing() -> None:
    evidence = Evidence(complete=False)
    assert [evidence.number(event(seq)) for seq in (5, 6, 9, 9, 10)] == [True, True, True, False, True]
    assert evidence.lost_events == 2
    assert evidence.uncertainty_at(0, ["b"]) == "2 events of b are missing"
    assert evidence.uncertainty_at(0, ["c"]) == ""
    assert evidence.uncertainty_at(HOLE_REACH_MS + 1, ["b"]) == ""


def test_a_new_run_casts_doubt_unless_the_node_said_that_it_stops() -> None:
    evidence = Evidence(complete=False)
    evidence.number(event(5))
    evidence.number(event(RUN_SEQS + 1))
    assert "started again" in evidence.uncertainty_at(0, ["b"])
    clean = Evidence(complete=False)
    clean.number(event(5))
    clean.stopped(event(6, kind=EventKind.BROKER_DOWN))
    clean.number(event(RUN_SEQS + 1))
    assert clean.uncertainty_at(0, ["b"]) == ""


def test_two_processes_with_one_client_id_count_each_for_itself() -> None:
    evidence = Evidence(complete=False)
    for seq in (1, 3 * RUN_SEQS + 1, 2, 3 * RUN_SEQS + 2, 3):
        assert evidence.number(event(seq, node="c"))
    assert evidence.lost_events == 0


def test_a_missing_part_casts_doubt_on_everything_also_on_what_was_certain() -> None:
    evidence = Evidence(complete=False)
    evidence.add(Rule.ORPHAN, event(1), "x", [event(1)])
    evidence.add(Rule.FLAP, event(1), "y", [event(1)], doubt="of its own")
    evidence.mark_all_uncertain("a part is missing")
    answers = {each.rule: each for each in evidence.verdicts()}
    assert {each.answer for each in answers.values()} == {Answer.UNKNOWN}
    assert (answers[Rule.ORPHAN].found, answers[Rule.ORPHAN].doubtful) == (0, 1)
    assert [each.doubt for each in evidence.anomalies] == ["a part is missing", "of its own"]


@pytest.mark.walk
def test_a_complete_history_has_no_doubts() -> None:
    evidence = Evidence(complete=True)
    evidence.number(event(1))
    evidence.number(event(9))
    evidence.add(Rule.ORPHAN, event(9), "x", [event(9)])
    assert evidence.verdicts()[list(Rule).index(Rule.ORPHAN)].answer is Answer.NO


@pytest.mark.walk
def test_the_first_anomalies_of_a_rule_are_kept_and_all_are_counted_with_short_witnesses() -> None:
    evidence = Evidence(complete=True)
    for n in range(MAX_ANOMALIES + 5):
        evidence.add(Rule.FLAP, event(n), "x", [event(seq) for seq in range(MAX_WITNESS * 2)])
    assert len(evidence.anomalies) == MAX_ANOMALIES
    assert evidence.verdicts()[list(Rule).index(Rule.FLAP)].found == MAX_ANOMALIES + 5
    assert [each.seq for each in evidence.anomalies[0].witness] == list(range(MAX_WITNESS, MAX_WITNESS * 2))


def test_a_broker_that_only_lost_a_client_has_not_ended() -> None:
    assert is_end_of_node(event(1, kind=EventKind.BROKER_DOWN)._replace(detail="stop"))
    assert not is_end_of_node(event(1, kind=EventKind.BROKER_DOWN)._replace(detail="10.0.0.1:10911"))
    assert is_end_of_node(event(1, kind=EventKind.CLIENT_STOP))
