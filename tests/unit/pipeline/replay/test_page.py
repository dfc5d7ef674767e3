"""The page of a what-if."""

from __future__ import annotations

from pipeline.replay.page import whatif_page


def test_the_page_is_one_file_with_the_advice_the_picture_and_every_row() -> None:
    page = whatif_page("group <g>", "Choose X.", b"png", ["", ">moves"], [["a", "1"], ["b", "2"]], ["a note"])
    assert "group &lt;g&gt;" in page
    assert "Choose X." in page
    assert 'src="data:image/png;base64,cG5n"' in page
    assert page.count("<tr>") == 3
    assert '<td class="n">2</td>' in page
