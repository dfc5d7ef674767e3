"""All errors of the cluster, in one tree that answers three questions of a caller.

*Whose fault?* The branch of the tree. *May I retry?* `retryable`. *Did it happen?* `definite`: true means the request
certainly had no effect; false means that it may have been carried out although no answer came.

    RlabError
    +-- UsageError                     the caller: fix the arguments or the configuration
    |   +-- ConfigError                   a start-up option is wrong, a port or a directory cannot be used
    |   +-- InvalidParameter              a field of a request is wrong            INVALID_PARAMETER
    |   +-- FilterIllegal                 an SQL filter cannot be read             SUBSCRIPTION_PARSE_FAILED
    |   +-- MessageIllegal                the message itself cannot be stored      MESSAGE_ILLEGAL
    |   +-- TopicNotExist                                                          TOPIC_NOT_EXIST
    |   +-- GroupNotExist                                                          SUBSCRIPTION_GROUP_NOT_EXIST
    |   +-- NoPermission                  of the user, the topic or the broker     NO_PERMISSION
    |   +-- NotAuthenticated              no key, or a wrong one                   NOT_AUTHENTICATED
    |   +-- IllegalOperation              not in this state                        ILLEGAL_OPERATION
    |   +-- ClientIdConflict              two live clients share one id            CLIENT_ID_CONFLICT
    |   +-- BrokerNameTaken               two live brokers have one name           BROKER_NAME_TAKEN
    |   +-- RequestCodeNotSupported       the peer is of another version           REQUEST_CODE_NOT_SUPPORTED
    +-- ServerError                    the server: its state or its disk
    |   +-- SystemError_                  unexpected failure                       SYSTEM_ERROR
    |   +-- SystemBusy                                                             SYSTEM_BUSY
    |   +-- PollingFull                   too many pops are held                   POLLING_FULL
    |   +-- FlowControl                   too many requests of one peer            FLOW_CONTROL
    |   +-- ServiceNotAvailable           starting or stopping                     SERVICE_NOT_AVAILABLE
    |   +-- FlushDiskTimeout                                                       FLUSH_DISK_TIMEOUT
    |   +-- StorageFull                                                            STORAGE_FULL
    |   +-- StaleRegistration             a newer broker state is known            STALE_REGISTRATION
    |   +-- NotMaster                     another replica serves, or none yet      NOT_MASTER
    |   +-- NotEnoughReplicas             too few copies would be made             NOT_ENOUGH_REPLICAS
    |   +-- ReplicationTimeout            stored, but the copies are late          REPLICATION_TIMEOUT
    |   +-- RegisterUnavailable           the register of replica sets is away     REGISTER_UNAVAILABLE
    +-- NegativeAnswer                 not a failure: there is nothing to return
    |   +-- PullNotFound                                                           PULL_NOT_FOUND
    |   +-- PullRetryImmediately                                                   PULL_RETRY_IMMEDIATELY
    |   +-- PullOffsetMoved                                                        PULL_OFFSET_MOVED
    |   +-- QueryNotFound                                                          QUERY_NOT_FOUND
    |   +-- ConsumerNotOnline                                                      CONSUMER_NOT_ONLINE
    |   +-- ReceiptHandleDead             acknowledged or redelivered before       NO_MESSAGE
    |   +-- LeaseLost                     the queue is another member's now        LEASE_LOST
    |   +-- StageLost                     the staged messages of a sink are gone   STAGE_LOST
    |   +-- TransactionLost               a half message that is to be committed is gone
    |   +-- OffsetRegression              a commit would go backwards              OFFSET_REGRESSION
    +-- ClientFailed                   this process: a client has ended without a shutdown
    +-- NetworkError                   the network between the two
        +-- ConnectFailed                 never connected: definite
        +-- ConnectionLost                closed while a request was outstanding: indefinite
        +-- RequestTimeout                no answer in time: indefinite
        +-- ProtocolError                 the peer sent bytes that are not a frame PROTOCOL_ERROR

`make_error(code, remark)` is the only place that turns a wire code into an exception.
"""

from __future__ import annotations

from typing import ClassVar

from model.response_code import ResponseCode


class RlabError(Exception):
    """Base of every error that the cluster raises on purpose."""

    code: ClassVar[ResponseCode | None] = None
    retryable: ClassVar[bool] = False
    definite: ClassVar[bool] = True


class UsageError(RlabError):
    """The caller has to change something; the same call fails again."""


class ConfigError(UsageError):
    """A start-up option is wrong, or a resource it names (port, directory) cannot be used."""


class InvalidParameter(UsageError):
    """A field of a request is missing, of the wrong type or out of its range."""

    code = ResponseCode.INVALID_PARAMETER


class FilterIllegal(UsageError):
    """The SQL filter of a subscription is not an expression of the language, or too large."""

    code = ResponseCode.SUBSCRIPTION_PARSE_FAILED


class MessageIllegal(UsageError):
    """The message is too large, has an empty part that must not be empty, or names something that it may not name."""

    code = ResponseCode.MESSAGE_ILLEGAL


class TopicNotExist(UsageError):
    """No broker serves the topic, and a send may not create it."""

    code = ResponseCode.TOPIC_NOT_EXIST


class GroupNotExist(UsageError):
    """The consumer group is unknown to this broker."""

    code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class NoPermission(UsageError):
    """The user lacks the right, or the topic or the broker does not allow reading or writing."""

    code = ResponseCode.NO_PERMISSION


class NotAuthenticated(UsageError):
    """The server has access control, and the client proved no key that it knows; or the server proved no key."""

    code = ResponseCode.NOT_AUTHENTICATED


class IllegalOperation(UsageError):
    """The call does not fit the state that the object is in (started twice, closed, ...)."""

    code = ResponseCode.ILLEGAL_OPERATION


class ClientIdConflict(UsageError):
    """Another live client of the group has the same client id."""

    code = ResponseCode.CLIENT_ID_CONFLICT


class BrokerNameTaken(UsageError):
    """Another live broker, with another data directory, is registered under this name."""

    code = ResponseCode.BROKER_NAME_TAKEN


class RequestCodeNotSupported(UsageError):
    """The server does not know this request code: the two sides are of different versions."""

    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED


class ServerError(RlabError):
    """The server could not do it now; another broker may, or the same one later."""

    retryable = True


class SystemError_(ServerError):
    """Unexpected failure inside the server; its log has the traceback. The effect is unknown."""

    code = ResponseCode.SYSTEM_ERROR
    definite = False


class SystemBusy(ServerError):
    """A table or queue of the server is at its limit, or the server is late; `retry_after_s` is the wait, or 0."""

    code = ResponseCode.SYSTEM_BUSY

    def __init__(self, text: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class PollingFull(ServerError):
    """The broker holds as many pops, or has as many invisible messages, as it can; acknowledge some, or retry later."""

    code = ResponseCode.POLLING_FULL


class FlowControl(ServerError):
    """This connection has too many unanswered requests."""

    code = ResponseCode.FLOW_CONTROL


class ServiceNotAvailable(ServerError):
    """The server is starting or stopping and accepts no requests."""

    code = ResponseCode.SERVICE_NOT_AVAILABLE


class FlushDiskTimeout(ServerError):
    """The message was written but could not be made durable: it may or may not survive."""

    code = ResponseCode.FLUSH_DISK_TIMEOUT
    definite = False


class StorageFull(ServerError):
    """The disk of the broker is full; nothing was stored."""

    code = ResponseCode.STORAGE_FULL


class StaleRegistration(ServerError):
    """A name server already knows a newer state of this broker than the registered one."""

    code = ResponseCode.STALE_REGISTRATION


class NotMaster(ServerError):
    """This replica does not serve its broker's clients; nothing was changed. Ask the master, or look up the route.

    `master_address` is where the master listens, empty if this replica does not know; `epoch` is the number of that
    mastership, or 0.
    """

    code = ResponseCode.NOT_MASTER

    def __init__(self, text: str = "", master_address: str = "", epoch: int = 0) -> None:
        super().__init__(text)
        self.master_address = master_address
        self.epoch = epoch


class NotEnoughReplicas(ServerError):
    """Fewer replicas are in sync than the set requires; nothing was stored. RocketMQ: IN_SYNC_REPLICAS_NOT_ENOUGH."""

    code = ResponseCode.NOT_ENOUGH_REPLICAS


class ReplicationTimeout(ServerError):
    """The message is stored here, but not all in-sync replicas confirmed it in time: a failover may lose it.

    RocketMQ: FLUSH_SLAVE_TIMEOUT.
    """

    code = ResponseCode.REPLICATION_TIMEOUT
    definite = False


class RegisterUnavailable(ServerError):
    """The register of replica sets cannot be asked, or did not answer: a change may have been written or not.

    Read the row again before any other decision (`replica/register.py`).
    """

    code = ResponseCode.REGISTER_UNAVAILABLE
    definite = False


class NegativeAnswer(RlabError):
    """An answer without a result, which is not a failure. Raised only where the caller needs a result to go on."""


class PullNotFound(NegativeAnswer):
    """No message at or after the offset yet."""

    code = ResponseCode.PULL_NOT_FOUND
    retryable = True


class PullRetryImmediately(NegativeAnswer):
    """Messages were skipped by the filter; ask again from the next offset."""

    code = ResponseCode.PULL_RETRY_IMMEDIATELY
    retryable = True


class PullOffsetMoved(NegativeAnswer):
    """The offset is outside what the broker holds."""

    code = ResponseCode.PULL_OFFSET_MOVED


class QueryNotFound(NegativeAnswer):
    """The requested thing does not exist (no offset stored, no such message)."""

    code = ResponseCode.QUERY_NOT_FOUND


class ConsumerNotOnline(NegativeAnswer):
    """No member of the group is connected."""

    code = ResponseCode.CONSUMER_NOT_ONLINE


class ReceiptHandleDead(NegativeAnswer):
    """The message was acknowledged or redelivered, or its invisible time changed, since this handle was issued."""

    code = ResponseCode.NO_MESSAGE


class LeaseLost(NegativeAnswer):
    """The queue is leased to another member of the group, or the fencing token is stale."""

    code = ResponseCode.LEASE_LOST


class StageLost(NegativeAnswer):
    """A commit of a sink names messages that are no longer staged here; nothing was published: retry the batch."""

    code = ResponseCode.STAGE_LOST


class TransactionLost(NegativeAnswer):
    """The half message of a transaction whose local branch is done is gone: send the message again."""


class OffsetRegression(NegativeAnswer):
    """The commit is below the stored offset and not flagged as a reset."""

    code = ResponseCode.OFFSET_REGRESSION


class ClientFailed(RlabError):
    """A client has ended without a shutdown: a task of it failed or was cancelled by other code. Start a new client.

    Its cause is the exception of that task. A consumer has left its group, or is about to: see its log line of the
    level CRITICAL.
    """


class NetworkError(RlabError):
    """The request or its answer did not arrive."""

    retryable = True
    definite = False


class ConnectFailed(NetworkError):
    """No connection could be made, so nothing was sent."""

    definite = True


class ConnectionLost(NetworkError):
    """The connection closed before the answer came; the request may have been carried out."""


class RequestTimeout(NetworkError):
    """No answer within the time given; the request may have been carried out."""


class ProtocolError(NetworkError):
    """The peer sent bytes that are not a frame of this protocol. The connection is closed."""

    code = ResponseCode.PROTOCOL_ERROR
    retryable = False


def _classes(root: type[RlabError]) -> list[type[RlabError]]:
    classes = [root]
    for child in root.__subclasses__():
        classes.extend(_classes(child))
    return classes


ERROR_BY_CODE: dict[ResponseCode, type[RlabError]] = {
    cls.code: cls for cls in _classes(RlabError) if cls.code is not None
}


def make_error(code: int, remark: str) -> RlabError:
    """Make an exception of exactly the class of a response code, with the server's text.

    A code that is not a `ResponseCode` becomes `SystemError_`.
    """
    try:
        known_code = ResponseCode(code)
    except ValueError:
        return SystemError_(f"unknown response code {code}: {remark}")
    return ERROR_BY_CODE[known_code](remark)
