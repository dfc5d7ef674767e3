"""Registrations as tests write them, in one line each."""

from __future__ import annotations

from typing import Any

import msgpack

from model.topic_route import READ_WRITE, MessageType, Perm, TopicConfig
from namesrv.registration import BrokerRegistration


def topic(
    name: str,
    read: int = 4,
    write: int = 4,
    perm: Perm = READ_WRITE,
    message_type: MessageType = MessageType.MIXED,
) -> TopicConfig:
    return TopicConfig(topic=name, read_queue_nums=read, write_queue_nums=write, perm=perm, message_type=message_type)


def broker(
    name: str = "broker-a",
    *topics: TopicConfig | str,
    broker_id: int = 0,
    address: str = "",
    version: int = 1,
    cluster: str = "lab",
    expiry_s: float = 120.0,
    newcomer: bool = False,
    data_id: int = 0,
    set_id: int = 0,
    epoch: int = 0,
    replica_id: int = 0,
    role: str = "",
    lag_bytes: int = 0,
) -> BrokerRegistration:
    """A registration; its address says name and id unless it is given."""
    return BrokerRegistration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=address or f"{name}-{broker_id}:10911",
        version=version,
        expiry_s=expiry_s,
        newcomer=newcomer,
        data_id=data_id,
        set_id=set_id,
        epoch=epoch,
        replica_id=replica_id,
        role=role,
        lag_bytes=lag_bytes,
        topics=tuple(topic(each) if isinstance(each, str) else each for each in topics),
    )


def wire(registration: BrokerRegistration) -> tuple[dict[str, Any], bytes]:
    """Header and body of the REGISTER_BROKER request for it."""
    header = {
        "cluster": registration.cluster,
        "broker_name": registration.broker_name,
        "broker_id": registration.broker_id,
        "address": registration.address,
        "version": registration.version,
        "expiry_ms": int(registration.expiry_s * 1000),
        "newcomer": registration.newcomer,
        "data_id": registration.data_id,
    }
    if registration.set_id:
        header |= {
            "set_id": registration.set_id,
            "replica_id": registration.replica_id or 1,
            "role": registration.role,
            "lag_bytes": registration.lag_bytes,
        }
        if registration.epoch:
            header["epoch"] = registration.epoch
    if any(config.message_type for config in registration.topics):
        header["message_types"] = "".join(str(int(config.message_type)) for config in registration.topics)
    return header, msgpack.packb([config.to_wire() for config in registration.topics])
