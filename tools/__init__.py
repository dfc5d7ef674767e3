"""Tools of those who work on the project: the pages of its site, and its releases.

    site/            the pages that are made from the code, and how mkdocs puts them together with docs/
    one_name.py      moves the packages below the one name under which they are installed
    name_stubs.py    tells editors and mypy that name in a checkout
    wheel.py         the commands of setuptools that write what is installed
    wheel_test.py    tests the wheel, beside a project with packages of the same names
    release.py       wheel, source archive, image, checksums and notes of a version

Nothing that is installed imports them, and they need no more than the packages do; mkdocs is an extra, for `make site`.
"""
