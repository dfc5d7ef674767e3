from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker.store.disk.options import StoreOptions
from broker.store.message_store import MessageStore
from cli.main import app
from cli.servers.upkeep import verify
from model.record import FlushMode
from tests.unit.broker.harness import World, simulated


def verified(data: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["broker", "verify", str(data), *options])
    return result.exit_code, result.stdout


def stored(directory: Path) -> Path:
    """Make the data directory of a broker with 100 messages in several segments."""
    found: list[Path] = []

    @simulated
    async def scenario(world: World) -> None:
        await world.start_broker(store=StoreOptions(segment_bytes=2_000), flush=FlushMode.ASYNC)
        peer = world.peer("a")
        await peer.put_topic()
        for _ in range(100):
            await peer.send()
        await peer.commit(100)
        await world.stop_broker()
        found.append(world.data_dir)

    scenario(directory)
    return found[0]


def test_a_whole_directory_is_said_to_be_whole(tmp_path: Path) -> None:
    data = stored(tmp_path)
    code, text = verified(data)
    assert code == 0
    assert "100 messages in" in text
    assert "none is damaged or missing" in text


@pytest.mark.parametrize("which", [0, 1, -1])
def test_what_is_damaged_is_listed_with_file_topic_queue_and_offsets(tmp_path: Path, which: int) -> None:
    data = stored(tmp_path)
    segment = [path for path in sorted(data.glob("*.log")) if path.stat().st_size > 300][which]
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    code, text = verified(data, "--json")
    document = json.loads(text)
    assert (code, document["ok"], document["messages"], document["damaged"]) == (1, False, 99, 1)
    [missing] = document["missing"]
    assert (missing["file"], missing["topic"], missing["queue_id"], missing["messages"]) == (segment.name, "t", 0, 1)
    assert missing["first_offset"] == missing["last_offset"]
    code, text = verified(data)
    assert code == 1
    assert segment.name in text
    assert "99 messages in" in text
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before


def test_committed_messages_that_are_gone_without_another_trace_are_counted(tmp_path: Path) -> None:
    data = stored(tmp_path)
    (data / "ENDS").unlink()
    for path in data.glob("0*"):
        path.unlink()
    document = json.loads(verified(data, "--json")[1])
    assert (document["messages"], document["damaged"]) == (0, 100)


def test_without_the_metadata_topics_have_numbers(tmp_path: Path) -> None:
    data = stored(tmp_path)
    for flaw in ("is missing", "cannot be read"):
        for path in data.glob("metadata.sqlite*"):
            path.unlink()
        if flaw != "is missing":
            (data / "metadata.sqlite").write_bytes(b"no database at all, for a change, and longer than a header" * 9)
        code, text = verified(data)
        assert code == 1
        assert f"metadata.sqlite {flaw}" in text
        assert "100 messages in" in text


def test_a_long_list_is_cut_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "MAX_ROWS", 1)
    data = stored(tmp_path)
    segments = [path for path in sorted(data.glob("*.log")) if path.stat().st_size > 300]
    for segment in (segments[0], segments[2]):
        segment.unlink()
    code, text = verified(data)
    assert code == 1
    assert "and 1 range more: --json lists all" in text


def test_other_directories_and_running_brokers_are_refused_in_one_line(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "gone"):
        result = CliRunner().invoke(app, ["broker", "verify", str(directory)])
        assert result.exit_code == 2
        assert "is not the data directory of a broker" in result.stderr
    with MessageStore.open(tmp_path / "open", StoreOptions(), lambda: 0):
        result = CliRunner().invoke(app, ["broker", "verify", str(tmp_path / "open")])
        assert result.exit_code == 2
        assert "is in use by process" in result.stderr


def test_options_of_a_broker_still_belong_to_the_command_without_a_word_behind_it() -> None:
    result = CliRunner().invoke(app, ["broker", "--segment-size", "much"])
    assert result.exit_code != 0
    result = CliRunner().invoke(app, ["broker", "frobnicate"])
    assert result.exit_code == 2
    assert "frobnicate" in result.stderr
