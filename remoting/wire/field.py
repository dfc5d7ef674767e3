"""The parts of a request's schema, and the fields that many requests share.

A field that names a topic, a group, a client id, a query or a transaction declares which right the request takes to the
named thing, or why it takes none. So the rights of a request follow from its schema, its body included
(`remoting/security/right_fields.py`), and a test checks for all requests that each such field declares one of the two.

    TOPIC.requires(Right.CONSUME)    the user must have the right to consume the topic in this field
    TOPIC.freely("why")              the request takes no right to it, for a reason
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum

from model.limits import MAX_EXPRESSION_CHARS

_Type = type[object]  # a field has an attribute `type`


class Noun(StrEnum):
    """Kinds of things that a field names."""

    TOPIC = "topic"
    GROUP = "group"
    CLIENT = "client id"
    QUERY = "query"
    TRANSACTION = "transaction"
    BROKER = "broker"


class Right(StrEnum):
    """Things that a request does to a topic, a group, an id, a broker or the cluster; see `security/policy.py`."""

    PRODUCE = "produce"  # to a topic
    PRODUCE_ANY = "produce some topic"
    CONSUME = "consume"  # a topic
    CONSUME_OR_MANAGE = "consume or manage"  # a topic: set a group's offsets on it
    CONSUME_ALL = "consume every topic"
    KNOW = "know"  # that a topic or a group exists, and its progress: any other right to it suffices
    MEMBER = "groups"  # of a group
    MANAGE_TOPIC = "manage a topic"
    MANAGE_GROUP = "manage a group"
    KNOW_GROUP = "know a group"
    OWN = "own"  # an id that belongs to one user: `security/claims.py`
    REGISTER = "brokers"  # a broker
    REPLICATE = "replicate"  # a broker: be one of its replicas, which have all its messages
    CHANGE_SET = "replicate or administer"  # a broker: change its replica set
    ADMIN = "admin"  # the cluster
    ANYONE = "anyone"  # who has proved a key


class Rank(IntEnum):
    """The order in which a late server serves requests; see `overload/admission.py`."""

    KEEPALIVE = 0  # keeps a group alive, or ends something
    CONTROL = 1  # asks for or sets the state of groups, topics and servers
    DATA = 2  # new work


class Effect(Enum):
    """The effect of a request at a broker that has replicas; `broker/durability/serving.py` acts on it."""

    LOCAL = "neither shows nor changes what replicas have in common"
    READS = "shows stored state"
    CHANGES = "changes stored state, but appends no message of a client"
    APPENDS = "appends messages of a client"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a header, or one column of the rows in a body.

    Attributes:
        type: exactly this Python type on the wire (bool is not int; a whole number is not a float).
        doc: its meaning, with its unit.
        required: an optional field may be absent or nil.
        minimum, maximum: inclusive bounds of a number, or of the numbers in a list. Of a text in a header, `maximum` is
            the most characters, `MAX_FIELD_CHARS` without it.
        items: of a list, the type of everything in it.
        noun: what its text names, or each text of its list; None for any other field.
        right: the right that the request takes to the named thing.
        when: fields of the header, one of which has to be there for the right to be taken; empty for always.
        absent: the right to the whole cluster, or to all topics, that the request takes without the field.
        why: the reason why no right is taken to the named thing.
    """

    name: str
    type: _Type
    doc: str
    required: bool = True
    minimum: int | None = None
    maximum: int | None = None
    items: _Type | None = None
    noun: Noun | None = None
    right: Right | None = None
    when: tuple[str, ...] = ()
    absent: Right | None = None
    why: str = ""

    def requires(self, right: Right, *, when: tuple[str, ...] = (), absent: Right | None = None) -> Field:
        """Return the field for a request that takes this right to the named thing."""
        return replace(self, right=right, when=when, absent=absent)

    def freely(self, why: str) -> Field:
        """Return the field for a request that takes no right to the named thing, for this reason."""
        return replace(self, why=why)

    @property
    def title(self) -> str:
        """The name of the field as words."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class RequestSchema:
    """One request code.

    Attributes:
        sender: `sender -> receiver`.
        fields: of the header; `check_header` checks them.
        rows: columns of the body, a msgpack array of rows; one field alone stands for an array of plain values. None
            when the body is anything else: `body` describes it then. `remoting/body.py` reads and checks them.
        max_rows: most rows, or most items of all rows together where a column is a list; 0 for the frame's limit only.
        answer: "" for SUCCESS and nothing more.
        rank: when a late server serves it.
        right: the right that it takes to the cluster. Without it, and without a field that takes a right, ADMIN.
        names: the names in a body without rows; `security/right_fields.py` reads them.
        effect: its effect at a broker that has replicas; None for requests that no broker serves.
    """

    sender: str
    purpose: str
    fields: tuple[Field, ...] = ()
    rows: tuple[Field, ...] | Field | None = None
    max_rows: int = 0
    body: str = ""
    answer: str = ""
    rank: Rank = Rank.CONTROL
    right: Right | None = None
    names: tuple[Field, ...] = ()
    effect: Effect | None = None

    def by_sql(self, purpose: str) -> RequestSchema:
        """Return the request that filters by SQL in the place of tags.

        It has its own request code: a broker of an earlier version would ignore a new field, and return everything.
        """
        return replace(
            self, purpose=purpose, fields=tuple(SQL if field is TAG_HASHES else field for field in self.fields)
        )

    @property
    def receiver(self) -> str:
        """Receiver, as in `sender`; of "any server's gate" only "any server"."""
        return self.sender.partition(" -> ")[2].partition("'")[0]

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns of the rows of its body; a single field counts as one."""
        return (self.rows,) if isinstance(self.rows, Field) else self.rows or ()

    @property
    def all_fields(self) -> tuple[Field, ...]:
        """The fields of its header, the columns of its body, and the other names in its body."""
        return (*self.fields, *self.columns, *self.names)

    def rows_text(self) -> str:
        """Return a description of the rows, e.g. `array of [topic, queue id], at most 16384`."""
        assert self.rows is not None, "the body has no rows"
        limit_text = f", at most {self.max_rows}" if self.max_rows else ""
        if isinstance(self.rows, Field):
            return f"array of {self.rows.title}s{limit_text}"
        columns = [f"[{column.title}, ...]" if column.type is list else column.title for column in self.rows]
        lists = [f" {column.title}s" for column in self.rows if column.type is list]
        return f"array of [{', '.join(columns)}]{limit_text}{''.join(lists)}"


TOPIC = Field("topic", str, "topic name", noun=Noun.TOPIC)
GROUP = Field("group", str, "consumer group", noun=Noun.GROUP)
CLIENT = Field("client_id", str, "id of the client instance", noun=Noun.CLIENT)
EPOCH = Field("epoch", str, "run id of the sender, which identifies it over a new connection", required=False)
QUEUE = Field("queue_id", int, "queue of the topic on this broker", minimum=0)
OFFSET = Field("offset", int, "offset of the message", minimum=0)
CAUSE = Field("cause", str, "id of the event that set this off", required=False)
TIMES = Field("times", bool, "answer with the times of messages, each of which is read for it", required=False)
BROKER = Field("broker_name", str, "broker name", noun=Noun.BROKER)
TOPIC_ID = Field("topic_id", int, "number of the topic that the offset counts in", required=False, minimum=1)
DATA_ID = Field("data_id", int, "number of the data directory that gave the topic's number", required=False, minimum=0)
TAG_HASHES = Field("tag_hashes", list, "hashes of the wanted tags; absent for all", required=False, items=int)
SQL = Field("sql", str, "filter of the messages by their properties", maximum=MAX_EXPRESSION_CHARS)
SUSPEND = Field("suspend_ms", int, "how long the broker may hold the request", minimum=0, maximum=60_000)
