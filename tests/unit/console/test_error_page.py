from __future__ import annotations

import pytest

from console.error_page import error_page, wants_page


@pytest.mark.parametrize(
    ("accept", "is_page"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", True),
        ("application/json, Text/HTML;q=0.1", True),
        ("application/json", False),
        ("text/event-stream", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_a_browser_that_opens_an_address_gets_a_page_and_a_script_does_not(accept: str, is_page: bool) -> None:
    assert wants_page(accept) is is_page


def test_a_page_has_its_message_as_text_and_links_to_the_views() -> None:
    page = error_page(404, "no topic '<script>alert(1)</script>'")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<title>Not found · rlab console</title>" in page
    for path in ("/", "/topics", "/groups"):
        assert f'<a href="{path}">' in page
    assert "<h1>Not possible</h1>" in error_page(418, "x")
