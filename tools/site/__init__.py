"""The site: the pages of docs/ as they are, and pages that are made from the code when it is built.

    made.py       the pages that are made: commands, Python API, errors
    links.py      where links between files of the repository lead on the site
    hooks.py      what mkdocs calls; mkdocs.yml names it

`mkdocs.yml` has the order of the pages. tests/docs/test_site.py checks all of it without mkdocs.
"""
