"""`python -m rlab` is the command `rlab`."""

from __future__ import annotations

from cli.main import main

main()
