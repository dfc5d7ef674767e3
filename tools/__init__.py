"""Tools of those who work on the project: the pages of its site, and its releases.

    site/         the pages that are made from the code, and how mkdocs puts them together with docs/
    release.py    wheel, source archive, image, checksums and notes of a version

Nothing that is installed imports them, and they need no more than the packages do; mkdocs is an extra, for `make site`.
"""
