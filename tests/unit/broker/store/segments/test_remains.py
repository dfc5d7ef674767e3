from __future__ import annotations

import errno
from pathlib import Path

from broker.store.segments.remains import read_remains
from tests.unit.broker.store.disk.faulty_files import FaultyFiles
from tests.unit.broker.store.store_helpers import offsets, open_store

KEY = (1, 0)


def test_the_payload_of_a_damaged_record_is_read_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    with open_store(tmp_path, tail_bytes=0) as store:
        for body in (b"first", b"second"):
            store.append(*KEY, body, 0)
        store.flush()
    [path] = tmp_path.glob("*.log")
    path.write_bytes(path.read_bytes().replace(b"second", b"seKond"))
    files = FaultyFiles()
    with open_store(tmp_path, files, tail_bytes=0) as store:
        assert offsets(store) == [0]
        assert read_remains(store.log, KEY, 1) == b"seKond"
        assert read_remains(store.log, KEY, 0) == b"first"
        assert read_remains(store.log, KEY, 2) == b"", "it was never there"
        assert read_remains(store.log, (9, 0), 0) == b""
        files.failing["pread"] = errno.EIO
        assert read_remains(store.log, KEY, 1) == b""
        files.failing.clear()
