"""Damage to one file: cut, removed, flipped bits, zeros."""

from __future__ import annotations

from pathlib import Path
from random import Random


def damage_file(path: Path, random: Random) -> str:
    """Damage one file in a random way; returns a description."""
    content = bytearray(path.read_bytes())
    how = random.choice(["cut", "remove", "flip", "zero"]) if content else "remove"
    if how == "remove":
        path.unlink()
        return f"{path.name} removed"
    position = random.randrange(len(content))
    if how == "cut":
        del content[position:]
    elif how == "flip":
        for _ in range(random.randint(1, 8)):
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    else:
        stop = min(len(content), position + random.choice([1, 50, 512, 4_096]))
        content[position:stop] = bytes(stop - position)
    path.write_bytes(content)
    return f"{path.name} {how} at {position}"
