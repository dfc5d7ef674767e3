"""The walk through the console in a real browser: `make console-test`.

A group is followed through a join, a kill and a scale-up. The right owner has to stand in the matrix within a second
of each move, old owners can be read by going back, everything can be reached by keyboard, axe-core finds no serious
violation, text of messages stays text, and a page that was offline catches up. Screenshots of all views in both widths
and themes are left in the folder that is named at the end.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from playwright.sync_api import Browser, Page

from client.admin.admin import Admin
from model.event_log import encode_events
from tests.browser.cluster import (
    GROUP,
    RLAB,
    ROOT,
    TOPIC,
    Relay,
    axe_script,
    browsing,
    consoled,
    need,
    running,
    stop,
    wait_for,
)
from tests.browser.sharing import sharing
from tests.browser.strange import MARKUP, injection, lost

LATEST_MS = 1_000.0
SIZES = {"1280": (1280, 900), "390": (390, 844)}
THEMES = ("light", "dark")
SERIOUS = ("serious", "critical")
WATCH = """() => {
  window.shown = {};
  const look = () => {
    for (const row of document.querySelectorAll(".matrix-row")) {
      if (row.hidden) continue;
      const known = window.shown[row.dataset.queue] ||= [];
      const owner = row.dataset.owner;
      if (!known.length || known[known.length - 1][1] !== owner) known.push([Date.now(), owner]);
    }
    requestAnimationFrame(look);
  };
  look();
}"""


class Members:
    """Members in processes of their own, and what they have acquired when."""

    def __init__(self, name_server: str) -> None:
        self.acquired: list[dict[str, Any]] = []
        self._name_server = name_server
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "tests.browser.members", self._name_server, GROUP, TOPIC, name]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._processes[name] = process
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self.acquired.append(json.loads(line))

    def kill(self, name: str) -> None:
        self._processes.pop(name).kill()

    def stop(self) -> None:
        for process in self._processes.values():
            stop(process)


@contextmanager
def members(name_server: str) -> Iterator[Members]:
    made = Members(name_server)
    try:
        yield made
    finally:
        made.stop()


def owners(page: Page) -> dict[str, str]:
    """The owners in the matrix, of the queues of the topic that are in sight."""
    rows = page.eval_on_selector_all(
        ".matrix-row", "rows => rows.filter(r => !r.hidden).map(r => [r.dataset.queue, r.dataset.owner])"
    )
    return {queue: owner for queue, owner in rows if queue.startswith(f"{TOPIC}@")}


def check_moves(page: Page, group: Members, since: int, what: str) -> None:
    """Every queue that was acquired, and kept for a second, was shown with its owner within a second."""
    page.wait_for_timeout(LATEST_MS + 500)
    shown = page.evaluate("window.shown")
    moves = {each["queue"]: each for each in group.acquired[since:] if each["queue"].startswith(f"{TOPIC}@")}
    need(bool(moves), f"{what}: nothing moved")
    worst = 0.0
    for queue, move in moves.items():
        times = [t_ms for t_ms, owner in shown.get(queue, []) if owner == move["owner"]]
        after = [t_ms - move["t_ms"] for t_ms in times if t_ms >= move["t_ms"] - 50]
        late = after[0] if after else 0.0 if times and shown[queue][-1][1] == move["owner"] else float("inf")
        worst = max(worst, late)
    need(worst <= LATEST_MS, f"{what}: an owner was shown {worst:.0f} ms after its move")
    print(f"ok  {what}: {len(moves)} moves, each shown within {worst:.0f} ms", flush=True)


def spread(page: Page, names: int, queues: int) -> bool:
    found = owners(page)
    return len(found) == queues and len(set(found.values())) == names and "" not in found.values()


def walk(page: Page, console: str, group: Members) -> None:
    group.start("first")
    page.goto(f"http://{console}/groups/{GROUP}")
    page.wait_for_selector(".timeline")
    wait_for("the first member owns all", lambda: spread(page, 1, 8))
    page.evaluate(WATCH)
    for action, name, number, queues in (("start", "second", 2, 8), ("start", "third", 3, 8), ("kill", "second", 2, 8)):
        since = len(group.acquired)
        getattr(group, action)(name)
        wait_for(f"{name} after {action}", lambda n=number, q=queues: spread(page, n, q))
        check_moves(page, group, since, f"{action} of {name}")
    since = len(group.acquired)
    other = page.context.new_page()
    other.goto(f"http://{console}/topics/{TOPIC}")
    other.fill("input[name=queues]", "6")
    other.click("button:text-is('Scale')")
    other.wait_for_selector("text=has 6 queues on each broker now")
    other.close()
    wait_for("owners of the new queues", lambda: spread(page, 2, 12))
    check_moves(page, group, since, "scale-up")


def is_past(page: Page) -> bool:
    return str(page.text_content(".hint[role=status]")).startswith("As of")


def go_back(page: Page) -> None:
    """By keyboard alone: choose the rebalance of the killed member, go before it, and read its queues."""
    page.wait_for_timeout(4000)  # until the trace has told all of it
    now = owners(page)
    page.focus("body")
    presses = 0
    while "strips-box" not in page.evaluate("document.activeElement.className") and presses < 60:
        page.keyboard.press("Tab")
        presses += 1
    need(presses < 60, "the timeline cannot be reached by Tab")
    presses = 0
    while not any(owner.endswith("@second") for owner in owners(page).values()) and presses < 60:
        page.keyboard.press("[" if presses % 10 == 0 else "ArrowLeft")
        page.wait_for_timeout(100)
        presses += 1
    then = owners(page)
    need(presses < 60, f"the killed member is not shown in the past: {then}")
    need(not any(owner.endswith("@second") for owner in now.values()), "it was shown in the present")
    address = page.url
    need("at=" in address, f"the moment is not in the address: {address}")
    page.goto(address)
    wait_for("the same moment by its address", lambda: is_past(page) and owners(page) == then)
    page.focus(".strips-box")
    page.keyboard.press("End")
    wait_for("the present again", lambda: owners(page) == now)
    button = page.locator("tbody button.plain", has_text="second started").first
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".waterfall")
    need("rebalance=" in page.url, "the rebalance is not in the address")
    print(f"ok  going back by keyboard: {len(then)} owners of then, and a waterfall", flush=True)


def offline(page: Page, relay: Relay, group: Members) -> None:
    """A page that lost its connection while a member joined shows the owners soon after it is back.

    The name of this member is markup: from here on, all pictures and tables have it.
    """
    relay.cut()
    page.wait_for_selector("#connection.bad", timeout=20_000)
    group.start(MARKUP)
    page.wait_for_timeout(5000)
    need(not spread(page, 3, 12), "it was not offline")
    relay.mend()
    elapsed = wait_for("a page that was offline", lambda: spread(page, 3, 12), 10)
    print(f"ok  a page that was offline caught up {elapsed:.1f} s after it was back", flush=True)


def check_axe(page: Page, what: str) -> None:
    """Nothing serious for axe-core."""
    page.evaluate(axe_script())
    found = page.evaluate("axe.run(document).then(r => r.violations)")
    serious = [
        f"{each['id']}: {each['nodes'][0]['failureSummary'][:300]}" for each in found if each["impact"] in SERIOUS
    ]
    need(not serious, f"axe finds on {what}: {serious}")


@contextmanager
def themed(browser: Browser, width: str, theme: str) -> Iterator[Page]:
    """A page of this width and theme, whose scripts may have no errors."""
    wide, high = SIZES[width]
    context = browser.new_context(
        viewport={"width": wide, "height": high}, color_scheme="light" if theme == "light" else "dark"
    )
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    need(not problems, f"errors of scripts at {width}, {theme}: {problems}")
    context.close()


def check_width(page: Page, what: str, wide: int) -> None:
    """Nothing is cut off at the right."""
    wider = page.evaluate(
        """(wide) => document.documentElement.scrollWidth <= wide ? [] : [...document.querySelectorAll("body *")]
            .filter((each) => each.getBoundingClientRect().right > wide)
            .map((each) => `${each.tagName}.${each.className} ${each.textContent.slice(0, 60)}`).slice(-3)""",
        wide,
    )
    need(not wider, f"{what} is wider than {wide}: {wider}")


def look_at(page: Page, file: Path, wide: int) -> None:
    """A screenshot of a view of which nothing is cut off, and in which axe-core finds nothing serious."""
    page.screenshot(path=file, full_page=True)
    check_width(page, file.stem, wide)
    check_axe(page, file.stem)


def views(browser: Browser, console: str, folder: Path) -> None:
    """Each view in both widths and themes: nothing wider than the page, nothing serious for axe, and a screenshot."""
    paths = {"cluster": "/", "topics": "/topics", "topic": f"/topics/{TOPIC}", "groups": "/groups"}
    paths |= {"group": f"/groups/{GROUP}", "letters": f"/groups/{GROUP}/dead-letters"}
    for width, theme in product(SIZES, THEMES):
        with themed(browser, width, theme) as page:
            for name, path in paths.items():
                page.goto(f"http://{console}{path}")
                page.wait_for_timeout(1500)
                if name == "group":
                    page.locator("tbody button.plain").first.click()
                    page.wait_for_selector(".waterfall")
                look_at(page, folder / f"{name}-{width}-{theme}.png", SIZES[width][0])
    print(f"ok  {len(paths)} views in 2 widths and 2 themes: no serious violation, nothing cut off", flush=True)


def test_cluster(browser: Browser, folder: Path) -> None:
    """Faults at the push of a button, and their effect beside it."""
    made = ("--brokers", "2", "--port", "0", "--topic", TOPIC, "--queues", "4", "--console", "--allow-changes")
    with running("cluster", *made) as (_, announced):
        address = f"http://{announced['console']}/test-cluster"
        for width, theme in product(SIZES, THEMES):
            with themed(browser, width, theme) as page:
                page.goto(address)
                page.wait_for_selector(".parts li")
                if (width, theme) == ("1280", "light"):
                    break_things(page)
                page.wait_for_timeout(1500)
                look_at(page, folder / f"test-cluster-{width}-{theme}.png", SIZES[width][0])
    print("ok  faults of a test cluster, with their effect beside them", flush=True)


def break_things(page: Page) -> None:
    for number in (1, 2):
        page.click("button:text-is('Add')")
        wait_for("the effect of a consumer that was added", lambda n=number: spread(page, n, 8))
    page.click("button[aria-label^='kill consumer-1 of']")
    elapsed = wait_for("the effect of a kill", lambda: spread(page, 1, 8))
    page.click("button[aria-label='pause broker-b']")
    page.wait_for_selector("button[aria-label='go on broker-b']")
    wait_for("the effect of a paused broker", lambda: "does not answer" in page.inner_text("[aria-label=Effect]"))
    page.click("button[aria-label='go on broker-b']")
    wait_for("the broker to answer", lambda: "does not answer" not in page.inner_text("[aria-label=Effect]"))
    break_connections(page)
    print(f"ok  a kill is seen {elapsed:.1f} s after its button", flush=True)


def break_connections(page: Page) -> None:
    """Notifications that are lost, seen in a member that learns of a third only when the fault is healed; and a cut."""
    page.click("button:text-is('Add')")
    wait_for("two members", lambda: spread(page, 2, 8))
    page.select_option("select[name=fault]", "drop")
    page.select_option("select[name=time]", "120")
    page.click("button:text-is('Begin')")
    page.wait_for_selector("button[aria-label^='heal drop notifications of']")
    page.click("button:text-is('Add')")
    page.wait_for_timeout(3000)
    need(not spread(page, 3, 8), "members learnt of a third one without notifications")
    wait_for("notifications that are lost to be counted", lambda: not_done(page) == 0)
    page.click("button[aria-label^='heal drop notifications of']")
    page.wait_for_selector("button[aria-label^='heal drop notifications of']", state="detached")
    page.click("button[aria-label^='kill consumer-4 of']")
    wait_for("the effect of a kill with notifications", lambda: spread(page, 2, 8))
    page.select_option("select[name=fault]", "cut")
    page.click("button:text-is('Begin')")
    page.wait_for_selector("text=begun: cut")
    wait_for("owners after a cut", lambda: spread(page, 2, 8))
    print("ok  notifications are lost and connections cut, with the effect beside it", flush=True)


def not_done(page: Page) -> int:
    """How many of the active faults were not done yet."""
    return int(page.locator("section[aria-label=Faults] li", has_text="done 0 times").count())


def trace_of(name_server: str, file: Path) -> None:
    """Write what the brokers have of the trace, as JSON Lines."""

    async def read() -> bytes:
        async with Admin(name_server) as admin:
            return encode_events(await admin.trace().read())

    # In a thread of its own, because Playwright has a loop in this one.
    reading = threading.Thread(target=lambda: file.write_bytes(asyncio.run(read())))
    reading.start()
    reading.join()


def report(browser: Browser, trace: Path) -> None:
    """The report of the walk: a rebalance folds out, nothing is cut off from 390 to 1,920, nothing serious for axe."""
    folder = trace.parent / "report"
    command = [*RLAB, "report", str(trace), "--against", str(trace), "--out", str(folder), "--group", GROUP]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    page = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True).new_page()
    page.goto(f"{(folder / 'index.html').as_uri()}#group={GROUP}&topic={TOPIC}")
    page.wait_for_selector(".strips-box")
    page.locator("[data-picture] tbody button.plain", has_text="second").last.click()
    page.wait_for_selector(".folded")
    need("rebalance=" in page.url, "the rebalance is not in the address of the report")
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(500)
        page.screenshot(path=trace.parent / f"report-{width}.png", full_page=True)
        check_width(page, "the report", width)
    check_axe(page, "the report")
    print("ok  the report folds out, and fits from 390 to 1,920", flush=True)


def main() -> None:
    folder = Path(mkdtemp(prefix="rlab-console-"))
    began = time.perf_counter()
    with browsing() as browser, consoled(4) as (name_server, console, relay, _), members(name_server) as group:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        walk(page, relay.address, group)
        go_back(page)
        offline(page, relay, group)
        injection(page, console)
        lost(page, console)
        sharing(page, console, name_server)
        views(browser, console, folder)
        trace_of(name_server, folder / "trace.jsonl")
        report(browser, folder / "trace.jsonl")
        test_cluster(browser, folder)
    print(f"PASSED in {time.perf_counter() - began:.0f} s; screenshots: {folder}")


if __name__ == "__main__":
    main()
