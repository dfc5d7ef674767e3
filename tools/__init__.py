"""Tools for developers of the project: the pages of its site, and its releases.

    site/            the pages that are made from the code, and the hooks by which mkdocs joins them with docs/
    one_name.py      moves the packages below the one name under which they are installed
    name_stubs.py    writes stubs of that name for editors and mypy in a checkout
    wheel.py         the commands of setuptools that write the installed files
    wheel_test.py    tests the wheel, beside a project with packages of the same names
    release.py       wheel, source archive, image, checksums and notes of a version

No installed module imports them, and they have no dependencies beyond those of the packages; mkdocs is an extra, for
`make site`.
"""
