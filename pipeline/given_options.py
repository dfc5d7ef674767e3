"""Parses options as Spark passes them: names in any case, values as text. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from model.errors import ConfigError, RlabError
from remoting.address import parse_addresses

_T = TypeVar("_T")

OF_KAFKA = {
    "kafka.bootstrap.servers": "nameServer",
    "bootstrap.servers": "nameServer",
    "kafka.group.id": "groupId",
    "groupIdPrefix": "groupId",
    "includeHeaders": "includeProperties",
    "kafka.sasl.jaas.config": "keyFile",
    "kafka.security.protocol": "tlsCa",
    "kafka.ssl.truststore.location": "tlsCa",
    "kafka.ssl.keystore.location": "tlsCert",
}
"""Options of Spark's source for Kafka -> their equivalents here; all others have the same names."""
_OF_KAFKA = {name.lower(): ours for name, ours in OF_KAFKA.items()}
COLUMNS_OF_KAFKA = {"value": "body", "headers": "properties", "partition": "queue_id", "timestamp": "store_ts"}
"""Columns of Spark's source and sink for Kafka -> their equivalents here; the others have the same names."""


def column_hint(name: str, names: Collection[str], otherwise: str) -> str:
    """Return the hint for an unknown column, for the text of an error."""
    ours = COLUMNS_OF_KAFKA.get(name.lower(), "")
    return f"that is a column of Kafka; use {ours}" if ours in names else otherwise


class GivenOptions:
    """The options of one read or write. A malformed value raises `ConfigError`, whose text names the option.

    `what` is `source` or `sink` in the text of errors; `ignored` are options for Spark itself, which Spark passes as
    well. `columns` are columns of the DataFrame that is written, for the text of an error if one is given as an option.

    Raises:
        ConfigError: an option is unknown.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        names: Sequence[str],
        subject: str,
        ignored: Sequence[str] = (),
        columns: Sequence[str] = (),
    ) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        of_lower = {name.lower(): name for name in names}
        of_spark = {name.lower() for name in ignored}
        for name in self._values:
            if name not in of_lower and name not in of_spark:
                raise ConfigError(f"the rlab {subject} has no option {name!r}: {_hint(name, of_lower, columns)}")

    def name_servers(self) -> tuple[str, ...]:
        """Return the addresses of option nameServer, which every read and write needs: ConfigError if it is missing."""
        if not self.has("nameServer"):
            raise ConfigError("option nameServer is missing: give the address of a name server, host:port[,host:port]")
        return self.parsed("nameServer", parse_addresses, ())

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name.lower() in self._values

    def text(self, name: str, default: str = "") -> str:
        """Return the text of an option, without blanks around it."""
        return self._values.get(name.lower(), default).strip()

    def parsed(self, name: str, parse: Callable[[str], _T], default: _T) -> _T:
        """Parse the text of an option; `parse` raises `RlabError`, `ValueError` or `re.error` to refuse it."""
        if not self.has(name):
            return default
        try:
            return parse(self.text(name))
        except (RlabError, ValueError, re.error) as error:
            raise ConfigError(f"option {name}: {error}") from error

    def number(self, name: str, default: int, minimum: int, maximum: int = 2**63 - 1) -> int:
        """Parse a whole number from `minimum` to `maximum`."""
        return self.parsed(name, lambda text: _number(text, minimum, maximum), default)

    def number_or_none(self, name: str, minimum: int) -> int | None:
        """Parse a whole number, or return None if the option was not given."""
        return self.number(name, 0, minimum) if self.has(name) else None

    def flag(self, name: str, default: bool) -> bool:
        """Parse `true` or `false`."""
        return self.parsed(name, _flag, default)

    def one_of(self, name: str, *choices: str) -> str:
        """Parse one of some words, in any case; returns the first one if the option was not given."""
        return self.parsed(name, lambda text: _one_of(text, choices), choices[0])


def _hint(name: str, names: Mapping[str, str], columns: Sequence[str]) -> str:
    ours = _OF_KAFKA.get(name, "")
    if ours.lower() in names:
        return f"that is an option of Kafka; use {ours}"
    column = COLUMNS_OF_KAFKA.get(name.removeprefix("include"), name)
    if column in columns:
        return f"each row has its own; write column {column}"
    if name.startswith("kafka."):
        return "options of Kafka's clients have no meaning here"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {names[near[0]]}?" if near else f"known are {', '.join(names.values())}"


def _number(text: str, minimum: int, maximum: int) -> int:
    if not re.fullmatch(r"-?\d{1,19}", text) or not minimum <= int(text) <= maximum:
        raise ValueError(f"{text!r} is not a whole number from {minimum} to {maximum}")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _one_of(text: str, choices: Sequence[str]) -> str:
    for choice in choices:
        if choice.lower() == text.lower():
            return choice
    raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
