"""Damage to files, as disks, networks and people do it."""

from __future__ import annotations

from random import Random

_PATTERNS = (b"\x00", b"\xff", b"\x7f", b"\x80")


def mutate(data: bytes, random: Random) -> bytes:
    """One mutation: cut short, bits flipped, numbers overwritten, bytes dropped or copied elsewhere.

    Half of the bits and numbers are within the first 4096 bytes, where header and program are.
    """
    made = bytearray(data)

    def anywhere(room: int = 1) -> int:
        end = len(made) if random.random() < 0.5 else min(len(made), 4096)
        return random.randrange(max(end - room + 1, 1))

    kind = random.choice(("cut", "bits", "bits", "bits", "numbers", "numbers", "drop", "copy"))
    if kind == "cut":
        return data[: random.randrange(len(data))]
    if kind == "bits":
        for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
            made[anywhere()] ^= 1 << random.randrange(8)
    elif kind == "numbers":
        for _ in range(random.choice((1, 2, 3))):
            width = random.choice((1, 2, 4, 8))
            at = anywhere(width)
            number = random.choice((random.choice(_PATTERNS) * width, random.randbytes(width)))
            made[at : at + width] = random.choice((number, (1).to_bytes(width, "little")))
    elif kind == "drop":
        at = anywhere()
        del made[at : at + random.randrange(1, 64)]
    else:
        at, origin, width = anywhere(64), anywhere(64), random.choice((4, 8, 16, 64))
        made[at : at + width] = made[origin : origin + width]
    return bytes(made)
