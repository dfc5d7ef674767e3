"""The result of a soak: a document, or lines."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class SoakVerdict:
    """The result of a run: the document of `--json`."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    sent: int = 0
    sent_per_s: int = 0
    failed_sends: int = 0
    received: int = 0
    lost: int = 0
    received_again: int = 0
    kills: dict[str, int] = field(default_factory=dict)  # by name; members have numbers and are counted together
    converged_s: list[float] = field(default_factory=list)
    rotations: int = 0
    check: str = ""  # the answer of rlab check
    levels: dict[str, list[float]] = field(default_factory=dict)


def print_verdict(verdict: SoakVerdict, *, as_json: bool) -> None:
    """Print the result: one document, or lines."""
    values = asdict(verdict)
    if as_json:
        sys.stdout.write(json.dumps(values) + "\n")
        return
    for name, value in values.items():
        sys.stdout.write(f"{name}: {value}\n")
    sys.stdout.write("FAILED\n" if verdict.wrong else "PASSED\n")
