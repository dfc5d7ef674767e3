"""Whose a member is, as long as it is a member, and over restarts of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.durability.metadata import MetadataStore
from broker.groups.owners import MemberOwners


@pytest.fixture
def metadata(tmp_path: Path) -> Iterator[MetadataStore]:
    with MetadataStore(tmp_path) as opened:
        yield opened


def restarted(metadata: MetadataStore, members: list[tuple[str, str]], *, is_kept: bool = True) -> MemberOwners:
    """The owners of the next run of a broker, which has stored these members."""
    metadata.commit()
    owners = MemberOwners(metadata, is_kept=is_kept)
    for group, client_id in members:
        owners.restored(group, client_id)
    owners.all_restored()
    return owners


def test_a_client_id_has_an_owner_until_it_has_left_its_last_group(metadata: MetadataStore) -> None:
    owners = MemberOwners(metadata, is_kept=True)
    owners.joined("g", "c1", "user alice")
    owners.joined("h", "c1", "user alice")
    owners.joined("g", "c2", "user bob")
    assert sorted(owners.members()) == [
        ("g", "c1", "user alice"),
        ("g", "c2", "user bob"),
        ("h", "c1", "user alice"),
    ]
    owners.member_left("g", "c1")
    assert owners.owner_of("c1") == "user alice"
    owners.member_left("h", "c1")
    assert owners.owner_of("c1") is None
    assert owners.owner_of("c2") == "user bob"


def test_owners_are_stored_with_the_members_and_those_of_others_forgotten(metadata: MetadataStore) -> None:
    owners = MemberOwners(metadata, is_kept=True)
    for client_id in ("c1", "c2"):
        owners.joined("g", client_id, "user alice")
    again = restarted(metadata, [("g", "c1"), ("g", "of-an-earlier-version")])
    assert again.members() == [("g", "c1", "user alice")]
    assert restarted(metadata, [("g", "c1"), ("g", "c2")]).owner_of("c2") is None


def test_without_access_control_no_one_owns_a_member_that_has_come_back(metadata: MetadataStore) -> None:
    MemberOwners(metadata, is_kept=True).joined("g", "c1", "user alice")
    without = restarted(metadata, [("g", "c1")], is_kept=False)
    without.joined("g", "c1", "10.0.0.1")
    without.joined("g", "c2", "10.0.0.1")
    assert without.members() == []
    assert restarted(metadata, [("g", "c1"), ("g", "c2")]).members() == []
