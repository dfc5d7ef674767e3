"""What is known of sinks comes back as it was saved."""

from __future__ import annotations

from pathlib import Path

from broker.durability.metadata import MetadataStore
from broker.sink.stage_table import Attempt, Chunk, LastBatch
from broker.sink.store import Intent, SinkStore


def test_chunks_intents_and_last_batches_survive_and_go(tmp_path: Path) -> None:
    attempt, chunk = Attempt("q", 3, 0, 1), Chunk(2, 77, ((("t", 0), 5), (("t", 1), 6)), 123)
    intent = Intent("q", 3, (77, 78), {(4, 0): 10, (4, 1): 0})
    with MetadataStore(tmp_path) as metadata:
        sinks = SinkStore(metadata)
        sinks.save_chunk(attempt, chunk)
        sinks.save_intent(intent)
        metadata.commit()
    with MetadataStore(tmp_path) as metadata:
        sinks = SinkStore(metadata)
        assert list(sinks.chunks()) == [(attempt, chunk)]
        assert list(sinks.intents()) == [intent]
        sinks.save_published(intent, LastBatch(3, 9))
        sinks.delete_chunks([(attempt, 2)])
        metadata.commit()
        assert (list(sinks.chunks()), list(sinks.intents())) == ([], [])
        assert list(sinks.last_batches()) == [("q", LastBatch(3, 9))]
        sinks.delete_query("q")
        metadata.commit()
        assert list(sinks.last_batches()) == []
