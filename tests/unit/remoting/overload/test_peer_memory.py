"""What peers leave unread: up to a sum, and then the slowest one is cut off."""

from __future__ import annotations

from remoting.overload.peer_memory import PeerMemory


def test_up_to_the_limit_no_one_is_cut_off_and_one_byte_past_it_the_one_that_read_longest_ago_is() -> None:
    memory: PeerMemory[str] = PeerMemory(100)
    assert memory.unread("a", 60) is None
    assert memory.unread("b", 40) is None
    assert memory.unread("b", 41) == "a"
    memory.read("a")
    assert memory.unread("b", 100) is None


def test_a_peer_that_reads_again_is_the_last_to_be_cut_off() -> None:
    memory: PeerMemory[str] = PeerMemory(100)
    memory.unread("a", 50)
    memory.unread("b", 50)
    memory.read("a")
    memory.unread("a", 50)
    assert memory.unread("a", 51) == "b"
