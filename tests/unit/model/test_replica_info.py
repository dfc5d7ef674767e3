"""The records about replicas are documents, as `rlab broker replicas --json` prints them."""

from __future__ import annotations

import json

from process.output import document
from tests.unit.metrics.doctor.doctor_copies import look_at, replica


def test_a_set_and_its_replicas_are_a_document_with_every_field() -> None:
    printed = json.loads(json.dumps(document(look_at(replica(1), replica(2, failure="refused")))))
    assert printed["row"]["in_sync"] == [1, 2]
    assert [each["role"] for each in printed["replicas"]] == ["master", ""]
    assert [each["failure"] for each in printed["replicas"]] == ["", "refused"]
    assert printed["replicas"][1]["register_answers"] is True
