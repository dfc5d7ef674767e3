from __future__ import annotations

import pytest

from model.errors import SystemBusy
from model.limits import SHARE_OF_ONE
from remoting.overload.addresses import network_of
from remoting.overload.shares import NO_SHARER, ShareBook, find_sharer

ALICE, BOB = find_sharer("user alice"), find_sharer("user bob")


def test_one_has_a_quarter_of_a_table_and_others_find_room_beside_it() -> None:
    reported: list[str] = []
    shares = ShareBook(reported.append).of("topics", 8, "delete some")
    for _ in range(8 // SHARE_OF_ONE):
        shares.check(ALICE)
        shares.add(ALICE.number)
    with pytest.raises(SystemBusy, match=r"user alice has 2 of the 8 topics .* may have a quarter: delete some"):
        shares.check(ALICE)
    shares.check(BOB)
    assert (shares.refused, len(reported)) == (1, 1)
    shares.remove(ALICE.number)
    shares.check(ALICE)


def test_many_entries_at_once_are_taken_or_refused_together() -> None:
    shares = ShareBook().of("open transactions", 40, "end some")
    shares.check(ALICE, 10)
    with pytest.raises(SystemBusy):
        shares.check(ALICE, 11)
    assert shares.of(ALICE.number) == 0


def test_what_is_above_a_share_stays_and_nothing_is_kept_of_those_who_have_nothing() -> None:
    shares = ShareBook().of("groups", 8, "delete some")
    shares.add(ALICE.number, 5)
    with pytest.raises(SystemBusy):
        shares.check(ALICE)
    shares.remove(ALICE.number, 4)
    shares.check(ALICE)
    shares.remove(ALICE.number)
    assert shares._of == {}


@pytest.mark.parametrize("owner", ["", "127.0.0.1", "127.8.8.8", network_of("[::1]:80")])
def test_addresses_of_this_machine_have_all_of_a_table(owner: str) -> None:
    shares = ShareBook().of("topics", 4, "delete some")
    sharer = find_sharer(owner)
    for _ in range(10):
        shares.check(sharer)
        shares.add(sharer.number)
    assert (sharer, shares.refused) == (NO_SHARER, 0)


def test_users_on_this_machine_have_shares_and_addresses_of_others_too() -> None:
    numbers = {find_sharer(owner).number for owner in ("user alice", "user 127.0.0.1", "10.0.0.1", "2001:db8::/64")}
    assert len(numbers) == 4
    assert all(0 < number < 2**31 for number in numbers), "a tag hash of a record has room for it"
    assert find_sharer("10.0.0.1").name == "address 10.0.0.1"


def test_a_number_is_the_same_in_every_run() -> None:
    assert ALICE.number == 65_200_895
