from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from client import Message, Producer
from testbed.bench.disk.replaced_disk import DISCARD, DISKS, KEEP, OptionalFiles, SlowFiles
from testbed.bench.kit.echo import BODY, TOPIC
from testbed.bench.kit.processes import broker_process, create_topics, name_server_process


def test_files_that_forget_claim_to_have_written_and_those_that_keep_have(tmp_path: Path) -> None:
    files = OptionalFiles()
    fd = files.open(tmp_path / "log", create=True)
    try:
        files.writes = False
        assert files.pwrite(fd, b"lost", 0) == 4
        files.sync(fd)
        assert files.size(fd) == 0
        files.writes = True
        files.write_all(fd, b"kept", 0)
        assert files.pread(fd, 4, 0) == b"kept"
    finally:
        files.close(fd)


def test_a_slow_disk_syncs_what_a_real_one_would(tmp_path: Path) -> None:
    files = SlowFiles()
    fd = files.open(tmp_path / "log", create=True)
    files.sync(fd)
    files.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.sync(fd)


@pytest.mark.process
@pytest.mark.tcp
def test_a_broker_on_an_optional_disk_is_reported_by_signals_when_to_keep(tmp_path: Path) -> None:
    async def main() -> None:
        def stored() -> int:
            return sum(path.read_bytes().count(BODY) for path in tmp_path.glob("*.log"))

        async def is_kept(producer: Producer) -> bool:
            before = stored()
            await producer.send(Message(TOPIC, BODY))
            return stored() > before

        async with (
            name_server_process() as name_server,
            broker_process(name_server, tmp_path, entry=("testbed.bench.disk.replaced_disk", "optional")) as broker,
            Producer(name_server) as producer,
        ):
            await create_topics(name_server, {TOPIC: 1})
            # A signal is heard when the system says so: what is sent before that is one more that is stored, or not.
            with anyio.fail_after(30):
                broker.process.send_signal(DISCARD)
                while await is_kept(producer):
                    pass
                broker.process.send_signal(KEEP)
                while not await is_kept(producer):
                    pass

    anyio.run(main)


def test_the_disks_have_names() -> None:
    assert {"optional": OptionalFiles, "slow": SlowFiles} == DISKS
