"""The page of a group whose members share messages: it shows who has which, and no queue that lacks an owner.

python -m tests.browser.sharing HOST:PORT runs a member that has messages and acknowledges none of them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from playwright.sync_api import Page

from client import ConsumeFrom, PopConsumer
from tests.browser.cluster import RLAB, ROOT, TOPIC, need, stop, wait_for

_GROUP = "sharing"


def sharing(page: Page, console: str, name_server: str) -> None:
    """The messages that a member has are in the rows of their queues, and in its own row."""
    sent = ("produce", TOPIC, "--count", "20", "--namesrv", name_server)
    subprocess.run([*RLAB, *sent], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    member = subprocess.Popen([sys.executable, "-m", "tests.browser.sharing", name_server], cwd=ROOT)
    try:
        page.goto(f"http://{console}/groups/{_GROUP}")
        page.wait_for_selector("h2:text-is('Who has messages of which queue')")
        owners = page.locator(".matrix-row.shared:not([hidden]) .owner")
        wait_for("the messages of a member in the row of a queue", lambda: owners.filter(has_text=": ").count() > 0)
        need(
            page.locator(".matrix-row:not([hidden]) .bad").count() == 0, "a shared queue is shown as one without owner"
        )
        need(page.locator("h2:text-is('Over time')").is_hidden(), "a group without owners has their timeline")
        cell = page.locator("[aria-label=Members] tbody tr td:nth-child(6)").first
        wait_for("the messages of a member in its row", lambda: cell.inner_text() not in ("", "0", "–"))
    finally:
        stop(member)
    print("ok  a group whose members share messages shows who has which", flush=True)


async def _have_messages(name_server: str) -> None:
    async with PopConsumer(name_server, group=_GROUP, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        await consumer.subscribe(TOPIC)
        while True:
            await consumer.receive(invisible_s=60)


if __name__ == "__main__":
    asyncio.run(_have_messages(sys.argv[1]))
