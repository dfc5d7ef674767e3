"""Who may register under a broker name that others have, or had."""

from __future__ import annotations

import pytest

from model.errors import BrokerNameTaken, NotMaster, StaleRegistration
from namesrv.fencing import LastMaster, LastMasters, check_claim
from namesrv.registration import BrokerRegistration
from tests.unit.namesrv.registrations import broker

LAST = LastMaster(5, 4, "h1:1")


def of_set(
    epoch: int, *, address: str = "h2:1", set_id: int = 5, broker_id: int = 0, version: int = 1, data_id: int = 7
) -> BrokerRegistration:
    return broker(
        "a", broker_id=broker_id, address=address, version=version, data_id=data_id, set_id=set_id, epoch=epoch
    )


MASTER = of_set(4, address="h1:1", version=10)


def test_a_higher_epoch_takes_the_name_whatever_its_address_version_and_data_directory() -> None:
    check_claim(of_set(5, version=1, data_id=8), [MASTER], LAST)


@pytest.mark.parametrize("live", [[MASTER], []], ids=["the master is there", "the master is away"])
def test_a_lower_epoch_is_refused_with_the_address_and_the_epoch_of_the_master(live: list[BrokerRegistration]) -> None:
    with pytest.raises(NotMaster, match=r"'a' at h2:1 is no longer the master: its epoch 3 ended with epoch 4") as it:
        check_claim(of_set(3), live, LAST)
    assert (it.value.master_address, it.value.epoch) == ("h1:1", 4)


def test_an_equal_epoch_is_the_same_master_by_its_data_directory_and_its_version() -> None:
    check_claim(of_set(4, version=10), [MASTER], LAST)  # it has moved
    with pytest.raises(BrokerNameTaken, match="runs at h1:1, with another data directory"):
        check_claim(of_set(4, version=11, data_id=8), [MASTER], LAST)
    with pytest.raises(StaleRegistration, match="version 10 from h1:1, newer than 9"):
        check_claim(of_set(4, version=9), [MASTER], LAST)


def test_another_set_is_refused_while_any_replica_of_the_first_is_there() -> None:
    replica = of_set(0, address="h3:1", broker_id=2)
    for other in (of_set(9, set_id=6), of_set(9, set_id=6, broker_id=3)):
        with pytest.raises(BrokerNameTaken, match="a broker of another set of replicas named 'a' runs at h3:1"):
            check_claim(other, [replica], LAST)
    check_claim(of_set(1, set_id=6), [], LAST)


def test_a_broker_without_a_set_and_a_set_do_not_share_a_name_unless_they_are_one_broker() -> None:
    plain = broker("a", address="h9:1", data_id=7, version=11)
    check_claim(of_set(1, address="h8:1"), [plain], None)  # it has become a set, and moved
    check_claim(plain, [MASTER], LAST)  # and the way back
    with pytest.raises(BrokerNameTaken, match="a broker without a set named 'a' runs at h9:1"):
        check_claim(of_set(1, data_id=8), [plain], None)
    with pytest.raises(BrokerNameTaken, match="a broker of another set of replicas named 'a' runs at h1:1"):
        check_claim(broker("a", address="h9:1", data_id=8), [MASTER], LAST)


def test_replicas_register_beside_each_other_whatever_epoch_they_know() -> None:
    for epoch in (0, 1, 9):
        check_claim(of_set(epoch, address="h3:1", broker_id=2), [MASTER, of_set(2, broker_id=1)], LAST)
    with pytest.raises(BrokerNameTaken, match="named 'a' with id 2 runs at h3:1"):
        check_claim(of_set(1, address="h4:1", broker_id=2, data_id=8), [of_set(1, address="h3:1", broker_id=2)], LAST)


def test_the_last_masters_are_bounded_and_those_that_are_there_stay() -> None:
    masters = LastMasters(2)
    for name in ("a", "b", "c"):
        masters.record(broker(name, set_id=5, epoch=1, address=f"{name}:1"), {"a": 1, "c": 1})
    assert [masters.of(name) is not None for name in ("a", "b", "c")] == [True, False, True]
    masters.record(broker("a", address="a:1"), {})
    assert masters.of("a") is None
    masters.forget("c")
    masters.forget("c")
    assert masters.of("c") is None
