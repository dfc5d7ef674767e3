"""docs/configuration.md has every option of every record, with the default that the code has, and flags that exist."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from broker.config import BrokerConfig, Part
from broker.retention.plan import RETAIN_MS, RetentionOptions
from broker.store.disk.options import StoreOptions
from broker.transactions.table import TransactionOptions
from cli.main import app
from client.config import ClientConfig
from client.options import ConsumerOptions, LitePullOptions
from client.produce.producer import Producer
from client.trigger import Trigger
from model.limits import PULL_SUSPEND_S
from namesrv.config import NameServerConfig
from tests.docs.pages import table_of, text_of

pytestmark = pytest.mark.walk

PAGE = "docs/configuration.md"
RECORDS: list[type[Any]] = [
    NameServerConfig, BrokerConfig, StoreOptions, RetentionOptions, TransactionOptions, ClientConfig, ConsumerOptions,
    LitePullOptions,
]  # fmt: skip
COMMANDS = {
    "NameServerConfig": "namesrv",
    "BrokerConfig": "broker",
    "ReplicaConfig": "broker",
    "StoreOptions": "broker",
    "RetentionOptions": "broker",
    "TransactionOptions": "broker",
    "ClientConfig": "consume",
    "ConsumerOptions": "consume",
    "Producer": "produce",
}
OF_EVERY_DAEMON = {
    "--config",
    "--exit-with-stdin",
    "--help",
    "--insecure",
    "--json",
    "--tls-client-ca",
    "--tls-key",
    "--log-format",
    "--verbose",
}

# Defaults that are made for each record, or have no text of their own.
IN_WORDS = {
    "store": "StoreOptions",
    "retention": "RetentionOptions",
    "transactions": "TransactionOptions",
    "retain_ms": "72 h",
    "files": "the real disk",
    "connection_class": "the plain one",
    "clock_ms": "wall clock",
    "rng": "a new one",
    "segment_age_ms": "24 h",
    "parts": f"all {len(Part)}",
    "triggers": "all",
}


def shown(name: str, default: Any) -> str:
    """A default as the page writes it."""
    if name in IN_WORDS:
        return IN_WORDS[name]
    if default is dataclasses.MISSING:
        return "required"
    if default is None or default in ("", (), frozenset()):
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    if name.endswith("_s"):
        return f"{default:g} s"
    if name.endswith("_bytes"):
        return f"{default // 2**20} MiB"
    return str(default) if isinstance(default, str) else f"{default:,}"


def flags_of(command: str) -> set[str]:
    commands: Any = get_command(app)
    return {opt for parameter in commands.commands[command].params for opt in parameter.opts if opt.startswith("--")}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_option_is_described_with_its_default(record: type[Any]) -> None:
    described = {row["option"]: row["default"] for row in table_of(PAGE, record.__name__)}
    assert described == {field.name: shown(field.name, field.default) for field in dataclasses.fields(record)}


def test_every_option_of_a_producer_is_described_with_its_default() -> None:
    described = {row["option"]: row["default"] for row in table_of(PAGE, "Producer")}
    own = list(inspect.signature(Producer.__init__).parameters.values())[2:]
    assert described == {each.name: shown(each.name, each.default) for each in own if each.name != "options"}


def test_the_defaults_that_are_reported_in_words_are_those() -> None:
    assert StoreOptions().segment_age_ms == 24 * 3600 * 1000
    assert RETAIN_MS == 72 * 3600 * 1000
    assert BrokerConfig(name="broker-a", data_dir=Path()).parts == frozenset(Part)
    assert ClientConfig(name_servers="127.0.0.1:9876").triggers == frozenset(Trigger)


@pytest.mark.parametrize("record", COMMANDS)
def test_every_flag_that_is_named_exists(record: str) -> None:
    named = {row["flag"] for row in table_of(PAGE, record)} - {""}
    assert named <= flags_of(COMMANDS[record])


@pytest.mark.parametrize("command", ["namesrv", "broker"])
def test_every_flag_of_a_daemon_is_described(command: str) -> None:
    records = [record for record, of in COMMANDS.items() if of == command]
    named = {row["flag"] for record in records for row in table_of(PAGE, record)} - {""}
    assert flags_of(command) - OF_EVERY_DAEMON == named


def test_options_without_a_reason_are_not_enough() -> None:
    for record in (*(record.__name__ for record in RECORDS), "Producer"):
        for row in table_of(PAGE, record):
            assert row["meaning, and why this default"].endswith("."), row
    assert "model/limits.py" in text_of(PAGE)


def test_the_table_of_other_defaults_has_the_numbers_of_the_code() -> None:
    rows = {row["what"].partition(" ")[0]: row for row in table_of(PAGE, "Where a default is not RocketMQ's")}
    assert rows["How"]["here"] == f"{PULL_SUSPEND_S:g} s"
    assert rows["`pull_batch`"]["here"] == str(LitePullOptions().pull_batch)
    assert [row["in RocketMQ"] for row in rows.values()] == [
        "10", "20 s", "half an hour before the start", "SYSTEM_ERROR", "fails at once",
    ]  # fmt: skip
