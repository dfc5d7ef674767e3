"""The parts of a request's schema, and the fields that many requests share."""

from __future__ import annotations

from dataclasses import dataclass

_Type = type[object]  # a field has an attribute `type`


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
    """

    name: str
    type: _Type
    doc: str
    required: bool = True
    minimum: int | None = None
    maximum: int | None = None
    items: _Type | None = None

    @property
    def title(self) -> str:
        """Its name as words."""
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
    """

    sender: str
    purpose: str
    fields: tuple[Field, ...] = ()
    rows: tuple[Field, ...] | Field | None = None
    max_rows: int = 0
    body: str = ""
    answer: str = ""

    @property
    def receiver(self) -> str:
        """Receiver, as in `sender`; of "any server's gate" only "any server"."""
        return self.sender.partition(" -> ")[2].partition("'")[0]

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns of the rows of its body; a single field counts as one."""
        return (self.rows,) if isinstance(self.rows, Field) else self.rows or ()

    def rows_text(self) -> str:
        """Return a description of the rows, e.g. `array of [topic, queue id], at most 16384`."""
        assert self.rows is not None, "the body has no rows"
        most = f", at most {self.max_rows}" if self.max_rows else ""
        if isinstance(self.rows, Field):
            return f"array of {self.rows.title}s{most}"
        columns = [f"[{column.title}, ...]" if column.type is list else column.title for column in self.rows]
        lists = [f" {column.title}s" for column in self.rows if column.type is list]
        return f"array of [{', '.join(columns)}]{most}{''.join(lists)}"


TOPIC = Field("topic", str, "topic name")
GROUP = Field("group", str, "consumer group")
CLIENT = Field("client_id", str, "id of the client instance")
EPOCH = Field("epoch", str, "run id of the sender, which proves over a new connection who it is", required=False)
QUEUE = Field("queue_id", int, "queue of the topic on this broker", minimum=0)
OFFSET = Field("offset", int, "offset of the message", minimum=0)
CAUSE = Field("cause", str, "id of the event that set this off", required=False)
TIMES = Field("times", bool, "answer with the times of messages, each of which is read for it", required=False)
BROKER = Field("broker_name", str, "broker name")
TAG_HASHES = Field("tag_hashes", list, "hashes of the wanted tags; absent for all", required=False, items=int)
SUSPEND = Field("suspend_ms", int, "how long the broker may hold the request", minimum=0, maximum=60_000)
