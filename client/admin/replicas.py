"""The replicas of a broker for operators: the row of the set in the register, and the position of each replica.

Every replica is asked for its own state, and the master also returns the positions of the others. If the replicas
return different rows of the set, the newest one counts.
"""

from __future__ import annotations

from typing import Any

import anyio

from client.admin.requests import ClusterRequests, list_names, unpack
from model.arguments import check_text, check_whole
from model.errors import InvalidParameter, NetworkError, NotMaster, RlabError
from model.replica_info import ReplicaInfo, ReplicaSetInfo
from model.replica_limits import MASTER_CONNECT_S, MASTER_PAUSE_S, MAX_SET_NUMBER
from model.replica_set import ReplicaSet
from remoting.request_code import RequestCode


async def replicas_of(cluster: ClusterRequests, broker: str) -> ReplicaSetInfo:
    """See `Admin.replicas`."""
    check_text("the name of a broker", broker)
    until = anyio.current_time() + MASTER_CONNECT_S
    while True:  # in a handover there is a moment in which no registered replica answers
        brokers = await cluster.brokers()
        addresses = [a for data in brokers if data.broker_name == broker for _, a in sorted(data.addresses.items())]
        if not addresses:
            names = [data.broker_name for data in brokers]
            raise InvalidParameter(f"broker {broker!r} is not registered; {list_names('registered brokers', names)}")
        answers = await _ask(cluster, addresses)
        if anyio.current_time() >= until or not all(isinstance(each, NetworkError) for each in answers.values()):
            break
        await anyio.sleep(MASTER_PAUSE_S)
    row = _newest(broker, answers)
    missing = [member.address for member in row.members if member.address not in answers]
    answers |= await _ask(cluster, missing) if missing else {}
    row = _newest(broker, answers)
    seen_by_master = _as_master_sees(row, answers)
    return ReplicaSetInfo(
        row=row,
        replicas=tuple(
            _info(
                row, member.replica_id, member.address, answers[member.address], seen_by_master.get(member.replica_id)
            )
            for member in row.members
        ),
    )


async def hand_over(cluster: ClusterRequests, broker: str, to: int) -> ReplicaSet:
    """See `Admin.hand_over`."""
    check_whole("replica id", to, 0, MAX_SET_NUMBER)
    row = (await replicas_of(cluster, broker)).row
    if row.master_address is None:
        raise NotMaster(f"{broker} has no master that could hand over: elect one (rlab broker elect {broker})")
    answer = await cluster.request(row.master_address, RequestCode.HAND_OVER, {"replica_id": to}, repeats=False)
    return ReplicaSet.from_wire(answer.body or b"")


async def _ask(cluster: ClusterRequests, addresses: list[str]) -> dict[str, Any]:
    """Address -> the state of the replica there, or the error instead of it."""
    answers = await cluster.ask({address: address for address in addresses}, RequestCode.GET_REPLICAS, {})
    return {address: each if isinstance(each, RlabError) else unpack(each) for address, each in answers.items()}


def _newest(broker: str, answers: dict[str, Any]) -> ReplicaSet:
    rows = [
        ReplicaSet.from_wire(each["row"])
        for each in answers.values()
        if not isinstance(each, RlabError) and each["row"] is not None
    ]
    if not rows:
        failures = "; ".join(f"{address}: {each}" for address, each in answers.items() if isinstance(each, RlabError))
        raise InvalidParameter(f"broker {broker!r} has no replicas that answer ({failures or 'it has no copies'})")
    return max(rows, key=lambda row: row.version)


def _as_master_sees(row: ReplicaSet, answers: dict[str, Any]) -> dict[int, Any]:
    master = answers.get(row.master_address or "")
    if master is None or isinstance(master, RlabError):
        return {}
    return {each["replica_id"]: each for each in master["replicas"]}


def _info(row: ReplicaSet, replica_id: int, address: str, answer: Any, seen_by_master: Any) -> ReplicaInfo:
    failed = isinstance(answer, RlabError)
    return ReplicaInfo(
        replica_id=replica_id,
        address=address,
        role="" if failed else answer["role"],
        in_sync=replica_id in row.in_sync,
        end_position=-1 if failed else answer["end_position"],
        state="" if seen_by_master is None else seen_by_master["state"],
        lag_bytes=-1 if seen_by_master is None else seen_by_master["lag_bytes"],
        lag_s=-1.0 if seen_by_master is None else seen_by_master["lag_s"],
        failure=str(answer) if failed else "",
        register_answers=failed or bool(answer["register_answers"]),
        register_at=() if failed else tuple(answer.get("register_at") or ()),
        lease_margin_s=-1.0 if failed or answer.get("lease_margin_s") is None else answer["lease_margin_s"],
        connected=seen_by_master is not None and bool(seen_by_master["connected"]),
    )
