"""The site: the pages of docs/, and pages that are made from the code when it is built.

    made.py       the pages that are made: commands, Python API, errors
    links.py      the target on the site of each link between files of the repository
    hooks.py      the functions that mkdocs calls; mkdocs.yml names the file

`mkdocs.yml` has the order of the pages. tests/docs/test_site.py checks all of it without mkdocs.
"""
