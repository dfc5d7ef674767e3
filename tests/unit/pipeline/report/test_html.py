from __future__ import annotations

from pipeline.report.html import document, table


def test_a_document_loads_nothing_and_no_name_ends_its_data() -> None:
    text = document("a <title>", "<p>body</p>", [{"group": "</script><b>"}])
    assert "<title>a &lt;title&gt;</title>" in text
    assert "default-src 'none'" in text
    assert "</script><b>" not in text


def test_a_column_of_numbers_is_marked_in_its_head_and_in_its_cells() -> None:
    text = table(("name", "*moves"), [("g", "3")])
    assert '<th data-head="name">name</th><th class="n" data-head="moves">moves</th>' in text
    assert '<td data-head="name">g</td><td class="n" data-head="moves">3</td>' in text
