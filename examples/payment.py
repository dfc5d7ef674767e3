"""An order and its payment, in the databases of two services, although both are killed in the middle again and again.

    python examples/payment.py
    python examples/payment.py --kills 50

The shop enters an order in `orders.sqlite` and sends a message about it, in one transaction; the cashier enters a
payment in `payments.sqlite` for each message. Both run in processes of their own, which are killed (kill -9) at random
moments and started again. Transactions that a killed shop has left open are ended by the next shop: the broker sends it
checks, and it looks into its book. In the end the two books are compared. The last line has the number of orders and
payments.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio

from rlab.broker.broker import run_broker
from rlab.broker.config import BrokerConfig
from rlab.broker.transactions.table import TransactionOptions
from rlab.client import ConsumeFrom, Message, MessageExt, PushConsumer, TransactionProducer, TransactionState
from rlab.client.admin.admin import Admin
from rlab.namesrv.config import NameServerConfig
from rlab.namesrv.server import run_name_server

ORDERS = "create table if not exists orders (message_id text primary key, cents integer, state text not null)"
PAYMENTS = "create table if not exists payments (message_id text primary key, cents integer not null)"
SOON = TransactionOptions(timeout_s=0.5, check_interval_s=0.5)


def book(path: Path, schema: str) -> sqlite3.Connection:
    """Open the book of a service."""
    db = sqlite3.connect(path, isolation_level=None, timeout=30)
    db.execute(schema)
    return db


# --- the shop --------------------------------------------------------------------------------------------------------


async def shop(folder: Path, name_server: str) -> None:
    """Take orders until there is a file `closed`; then only answer checks."""
    orders = book(folder / "orders.sqlite", ORDERS)

    def check(message: MessageExt) -> TransactionState:
        """Return the state of an order of this process or of a killed one; runs in a thread."""
        with closing(book(folder / "orders.sqlite", ORDERS)) as db:
            # If there is no such order yet, there must never be one: a shop that is about to enter it finds this row.
            db.execute("insert or ignore into orders values (?, null, 'rolled back')", (message.message_id,))
            (state,) = db.execute("select state from orders where message_id = ?", (message.message_id,)).fetchone()
        return TransactionState.COMMIT if state == "ordered" else TransactionState.ROLLBACK

    async with TransactionProducer(name_server, "shop", check=check) as producer:
        (folder / "shop.open").touch()
        while not (folder / "closed").exists():
            cents = random.randrange(1, 10_000)
            async with producer.transaction(Message("orders", str(cents).encode())) as tx:
                orders.execute("insert into orders values (?, ?, 'ordered')", (tx.message_id, cents))
        await anyio.sleep_forever()


# --- the cashier -----------------------------------------------------------------------------------------------------


async def cashier(folder: Path, name_server: str) -> None:
    """Enter a payment for each order; a message that is received twice is entered once."""
    payments = book(folder / "payments.sqlite", PAYMENTS)

    async def on_orders(messages: Sequence[MessageExt]) -> None:
        for message in messages:
            payments.execute("insert or ignore into payments values (?, ?)", (message.message_id, int(message.body)))

    consumer = PushConsumer(
        name_server, "cashier", instance_name="cashier", consume_from=ConsumeFrom.FIRST_OFFSET, session_timeout_s=1
    )
    await consumer.subscribe("orders", on_orders)
    async with consumer:
        (folder / "cashier.open").touch()
        await anyio.sleep_forever()


# --- the street ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def cluster(data_dir: Path) -> AsyncIterator[str]:
    """Run one name server and one broker, with a topic; yields the address that clients need."""
    async with run_name_server(NameServerConfig(listen="127.0.0.1:0")) as name_server:
        config = BrokerConfig(
            name="broker-a",
            data_dir=data_dir,
            listen="127.0.0.1:0",
            name_servers=(name_server.address,),
            transactions=SOON,
        )
        async with run_broker(config), Admin(name_server.address) as admin:
            while not await admin.brokers():
                await anyio.sleep(0.01)
            await admin.create_topic("orders", queues=2)
            yield name_server.address


def open_service(role: str, folder: Path, name_server: str) -> subprocess.Popen[bytes]:
    """Start the process of a service; its log lines while it is killed are dropped, because they are of no use."""
    (folder / f"{role}.open").unlink(missing_ok=True)
    command = [sys.executable, __file__, "--role", role, "--folder", str(folder), "--name-server", name_server]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def street(kills: int) -> None:
    """Run both services, kill them, let them finish, and compare their books."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        async with cluster(folder / "broker-a") as name_server:
            services = {role: open_service(role, folder, name_server) for role in ("shop", "cashier")}
            try:
                for number in range(1, kills + 1):
                    role = random.choice(["shop", "shop", "cashier"])
                    await opened(role, folder)
                    await anyio.sleep(random.uniform(0, 0.3))
                    services[role].kill()
                    services[role].wait()
                    services[role] = open_service(role, folder, name_server)
                    print(f"kill {number}: the {role}")
                await opened("shop", folder)
                await anyio.sleep(0.3)
                (folder / "closed").touch()
                await settle(name_server, folder)
            finally:
                for service in services.values():
                    service.kill()
                    service.wait()
        ordered, paid = books(folder)
        assert ordered == paid, f"{len(ordered.keys() ^ paid.keys())} entries differ"
        print(f"{len(ordered)} orders, {len(paid)} payments, {sum(paid.values()) / 100:.2f} in both books")


def books(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Message id -> cents, in the shop's book and in the cashier's."""
    with (
        closing(book(folder / "orders.sqlite", ORDERS)) as orders,
        closing(book(folder / "payments.sqlite", PAYMENTS)) as payments,
    ):
        ordered = orders.execute("select message_id, cents from orders where state = 'ordered'")
        return dict(ordered.fetchall()), dict(payments.execute("select message_id, cents from payments").fetchall())


async def opened(role: str, folder: Path) -> None:
    """Wait until a service is at work."""
    with anyio.fail_after(60):
        while not (folder / f"{role}.open").exists():
            await anyio.sleep(0.01)


async def settle(name_server: str, folder: Path) -> None:
    """Wait until no transaction is open, and every message is consumed."""
    with anyio.fail_after(60):
        async with Admin(name_server) as admin:
            while any(each.open for each in await admin.producer_groups()):
                await anyio.sleep(0.1)
        while len(books(folder)[0]) > len(books(folder)[1]):
            await anyio.sleep(0.1)


def main() -> None:
    """Run the street, or one of its services."""
    parser = argparse.ArgumentParser(description="An order and its payment, although both services are killed.")
    parser.add_argument("--kills", type=int, default=3, help="how often a service is killed")
    parser.add_argument("--role", choices=["shop", "cashier"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name-server", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.role is None:
        anyio.run(street, chosen.kills)
    else:
        anyio.run({"shop": shop, "cashier": cashier}[chosen.role], chosen.folder, chosen.name_server)


if __name__ == "__main__":
    main()
