"""Refuses parked requests whose user has lost the right to them: that user must not get messages that arrive now."""

from __future__ import annotations

from typing import Any, TypeVar

from broker.feature import CurrentRights
from broker.messages.parked import ParkedRequest, ParkedRequests
from remoting.connection import Connection

One = TypeVar("One", bound="ParkedRequest[Any]")


def refuse_parked(parked: ParkedRequests[One], rights: CurrentRights) -> None:
    """Refuse the parked requests that would be refused if they arrived now, and remove them from the table."""
    for parked_request in parked.all():
        connection: Connection = parked_request.connection
        refusal = rights.refusal(connection, parked_request.request)
        if refusal is not None:
            parked.remove_requests([parked_request])
            connection.respond_error(parked_request.request, refusal)
