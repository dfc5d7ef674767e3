"""The console with a thousand queues and three hundred members under churn: `make console-test CONSOLE_ARGS=scale`.

Prints the share of a core that the server takes, the script and layout time of frames while the page scrolls, from a
performance trace, the memory of the page at the begin and at the end, and how soon a page that was away shows the
owners of now; fails beyond the goals. CONSOLE_S is the time for which it is watched, of which it is away for the last
fifth, or minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from playwright.sync_api import Browser, Page

from tests.browser.cluster import RLAB, ROOT, Relay, browsing, consoled, need, stop, wait_for

QUEUES, MEMBERS, CHURN_S = 500, 300, 5
WATCH_S = float(os.environ.get("CONSOLE_S", "300"))
AWAY_S = min(60.0, WATCH_S / 5)
MOST_CATCH_UP_S = 10.0
MOST_CPU = 0.10
MOST_FRAME_MS = 8.0
MOST_GROWTH = 1.5
GROUP = "swarm"
_CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline.frame", "blink", "cc", "toplevel"]
_SCRIPT_AND_LAYOUT = {"FunctionCall", "FireAnimationFrame", "FireIdleCallback", "TimerFire", "EventDispatch"} | {
    "UpdateLayoutTree",
    "Layout",
    "PrePaint",
}


def cpu_s(pid: int) -> float:
    """The processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def heap_mb(page: Page) -> float:
    """What the page holds after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def frame_times_ms(trace: bytes) -> list[float]:
    """Script and layout between two frames of the main thread of the page."""
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    begins = [each for each in events if each.get("name") == "BeginMainThreadFrame"]
    thread = max({each["tid"] for each in begins}, key=lambda tid: sum(each["tid"] == tid for each in begins))
    frames = sorted(each["ts"] for each in begins if each["tid"] == thread)
    work = [
        (each["ts"], each["ts"] + each["dur"])
        for each in events
        if each.get("tid") == thread and each.get("ph") == "X" and each["name"] in _SCRIPT_AND_LAYOUT
    ]
    outer: list[tuple[int, int]] = []  # an inner event is a part of its outer one
    for begin, end in sorted(work, key=lambda span: (span[0], -span[1])):
        if not outer or begin >= outer[-1][1]:
            outer.append((begin, end))
    spent = dict.fromkeys(frames, 0.0)
    place = 0
    for begin, end in outer:
        while place + 1 < len(frames) and frames[place + 1] <= begin:
            place += 1
        if frames and begin >= frames[0]:
            spent[frames[place]] += (end - begin) / 1000
    return sorted(spent.values())


def scrolled(browser: Browser, page: Page) -> list[float]:
    """Scroll the matrix and the timeline up and down for some seconds."""
    browser.start_tracing(page=page, categories=_CATEGORIES)
    for selector in (".rows-box", ".strips-box"):
        page.evaluate(
            """(selector) => new Promise((done) => {
                const box = document.querySelector(selector);
                let frames = 0;
                const step = () => {
                    box.scrollTop = Math.abs((frames * 90) % 12000 - 6000);
                    frames += 1;
                    if (frames < 240) requestAnimationFrame(step); else done();
                };
                step();
            })""",
            selector,
        )
    return frame_times_ms(browser.stop_tracing())


def is_right(page: Page) -> bool:
    """Whether the page shows the owners that the console tells now, of the queues in sight."""
    return bool(
        page.evaluate(
            """async (group) => {
                const told = await (await fetch(`/api/groups/${group}`)).json();
                const owners = new Map(told.rows.map((row) => [row[0], row[1] || ""]));
                const rows = [...document.querySelectorAll(".matrix-row:not([hidden])")];
                return rows.length > 10 && rows.every((row) => owners.get(row.dataset.queue) === row.dataset.owner);
            }""",
            GROUP,
        )
    )


def away(page: Page, relay: Relay) -> float:
    """Cut the connections of the page for some time; returns how soon it is right after that."""
    before = page.eval_on_selector_all(".matrix-row:not([hidden])", "rows => rows.map((row) => row.dataset.owner)")
    relay.cut()
    page.wait_for_selector("#connection.bad", timeout=20_000)
    page.wait_for_timeout(AWAY_S * 1000)
    after = page.eval_on_selector_all(".matrix-row:not([hidden])", "rows => rows.map((row) => row.dataset.owner)")
    need(before == after, "the page was told of changes while it was away")
    relay.mend()
    began = time.perf_counter()
    page.wait_for_selector("#connection.good", timeout=20_000)
    wait_for("a page that was away", lambda: is_right(page), MOST_CATCH_UP_S)
    return time.perf_counter() - began


def main() -> None:
    with browsing() as browser, consoled(QUEUES) as (name_server, _, relay, pid):
        churn = ("--churn", str(CHURN_S), "--duration", "0", "--processes", "2")
        load = ("--topic", "orders", "--consumers", str(MEMBERS), "--producers", "1", "--rate", "100")
        log = Path(mkdtemp(prefix="rlab-console-")) / "swarm.log"
        with log.open("w") as file:
            command = [*RLAB, "swarm", "--namesrv", name_server, *load, *churn]
            swarm = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
        try:
            page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            page.goto(f"http://{relay.address}/groups/{GROUP}")
            page.wait_for_selector(".timeline", timeout=120_000)
            rows = "Number(document.querySelector('.rows-side').getAttribute('aria-rowcount'))"
            wait_for("all queues", lambda: page.evaluate(rows) > 2 * QUEUES, 120)
            page.wait_for_timeout(10_000)
            begin_mb, began, used = heap_mb(page), time.perf_counter(), cpu_s(pid)
            page.wait_for_timeout((WATCH_S - AWAY_S) * 1000)
            share = (cpu_s(pid) - used) / (time.perf_counter() - began)
            elapsed = away(page, relay)
            page.wait_for_timeout(2_000)
            end_mb = heap_mb(page)
            print(
                f"server: {share:.1%} of a core over {WATCH_S - AWAY_S:g} s, {MEMBERS} members, {2 * QUEUES} queues",
                flush=True,
            )
            times = scrolled(browser, page)
            p95 = times[int(len(times) * 0.95)]
            print(f"frames: {len(times)}, script and layout {times[len(times) // 2]:.1f} ms median, {p95:.1f} ms p95")
            print(f"away for {AWAY_S:g} s: right again {elapsed:.1f} s after the network was back")
            print(f"page: {begin_mb:.1f} MB at the begin, {end_mb:.1f} MB at the end")
            page.screenshot(path=log.with_name("scale.png"), full_page=True)
            print(f"screenshot: {log.with_name('scale.png')}")
        finally:
            stop(swarm)
    need(p95 <= MOST_FRAME_MS, f"script and layout of a scroll frame take {p95:.1f} ms at p95")
    need(share <= MOST_CPU, f"the server takes {share:.1%} of a core")
    need(end_mb <= begin_mb * MOST_GROWTH + 5, f"the page grew from {begin_mb:.1f} to {end_mb:.1f} MB")
    print("PASSED")


if __name__ == "__main__":
    main()
