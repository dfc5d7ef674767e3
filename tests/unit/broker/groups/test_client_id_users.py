"""Whose a member is, as long as it is a member, and over restarts of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.groups.client_id_users import ClientIdUsers


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[MetadataStore]:
    with MetadataStore(tmp_path) as opened:
        yield opened


def restarted(
    metadata: MetadataStore, members: list[tuple[str, str]], *, has_access_control: bool = True
) -> ClientIdUsers:
    """The owners of the next run of a broker, which has stored these members."""
    metadata.commit()
    owners = ClientIdUsers(metadata, has_access_control=has_access_control)
    for group, client_id in members:
        owners.restore_member(group, client_id)
    owners.end_restore()
    return owners


def test_a_client_id_has_an_owner_until_it_has_left_its_last_group(metadata: MetadataStore) -> None:
    owners = ClientIdUsers(metadata, has_access_control=True)
    owners.record_join("g", "c1", "user alice")
    owners.record_join("h", "c1", "user alice")
    owners.record_join("g", "c2", "user bob")
    assert sorted(owners.members()) == [
        ("g", "c1", "user alice"),
        ("g", "c2", "user bob"),
        ("h", "c1", "user alice"),
    ]
    owners.record_leave("g", "c1")
    assert owners.user_of_id("c1") == "user alice"
    owners.record_leave("h", "c1")
    assert owners.user_of_id("c1") is None
    assert owners.user_of_id("c2") == "user bob"


def test_owners_are_stored_with_the_members_and_those_of_others_forgotten(metadata: MetadataStore) -> None:
    owners = ClientIdUsers(metadata, has_access_control=True)
    for client_id in ("c1", "c2"):
        owners.record_join("g", client_id, "user alice")
    again = restarted(metadata, [("g", "c1"), ("g", "of-an-earlier-version")])
    assert again.members() == [("g", "c1", "user alice")]
    assert restarted(metadata, [("g", "c1"), ("g", "c2")]).user_of_id("c2") is None


def test_without_access_control_no_one_owns_a_member_that_has_come_back(metadata: MetadataStore) -> None:
    ClientIdUsers(metadata, has_access_control=True).record_join("g", "c1", "user alice")
    without = restarted(metadata, [("g", "c1")], has_access_control=False)
    without.record_join("g", "c1", "10.0.0.1")
    without.record_join("g", "c2", "10.0.0.1")
    assert without.members() == []
    assert restarted(metadata, [("g", "c1"), ("g", "c2")]).members() == []
