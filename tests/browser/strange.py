"""Pages for strange texts and strange addresses: markup stays text, and an address of nothing says what to do."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.browser.cluster import GROUP, TOPIC, need, wait_for

MARKUP = "<img/src=x/onerror=window.broken=1>"


def unharmed(page: Page, what: str) -> None:
    need(page.evaluate("document.images.length === 0 && window.broken === undefined"), f"markup of {what} was run")


def injection(page: Page, console: str) -> None:
    """Markup in names, keys, tags and bodies is shown as it was written."""
    page.goto(f"http://{console}/groups/{GROUP}")
    page.wait_for_selector(".timeline")
    for place in (
        ".matrix-row:not([hidden]) .owner",
        ".legend button",
        "[aria-label=Members] td",
        "tbody button.plain",
    ):
        wait_for(f"the name of a member in {place}", lambda p=place: page.locator(p, has_text=MARKUP).count() > 0)
    unharmed(page, "a member's name")
    page.goto(f"http://{console}/topics/{TOPIC}")
    page.fill("textarea", f"body {MARKUP}")
    page.fill("input[name=keys]", MARKUP)
    page.fill("input[name=tag]", MARKUP)
    page.click("button:text-is('Publish')")
    page.wait_for_selector("text=stored in orders@")
    page.wait_for_selector("details.message:first-of-type summary >> text=body <img")
    page.select_option("select[name=by]", "key")
    page.fill("input[name=key]", MARKUP)
    page.click("button:text-is('Find')")
    page.wait_for_selector("details.message")
    page.click("details.message summary")
    need(MARKUP in page.inner_text("details.message"), "the text of a message is not shown as it is")
    unharmed(page, "a message")
    page.goto(f"http://{console}/groups/{MARKUP.replace('/', '%2F')}")
    page.wait_for_timeout(500)
    unharmed(page, "an address")
    print("ok  markup in keys, tags, bodies and names is shown as text", flush=True)


def lost(page: Page, console: str) -> None:
    """Addresses without a page, a topic or a group say what to do, and a group appears with its first member."""
    page.goto(f"http://{console}/nowhere")
    page.click("a:text-is('Topics')")
    page.wait_for_selector("h1:text-is('Topics')")
    page.goto(f"http://{console}/topics/nothing")
    page.wait_for_selector("text=Create it: rlab topic create nothing")
    need(page.locator("textarea").is_hidden(), "a topic that does not exist has a form to publish")
    page.goto(f"http://{console}/groups/nobody")
    page.wait_for_selector("text=rlab consume TOPIC --group nobody")
    need(page.locator(".matrix").is_hidden(), "a group that does not exist has an empty matrix")
    print("ok  addresses of nothing say what to do", flush=True)
