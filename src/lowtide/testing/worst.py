"""One operation on bytes, at its worst: in whatever order of reading and writing spoils most.

What a program leaves open is decided against the plan: an operation scribbles over what it writes before it
reads, but for bytes that its kernel may write over in place, or that it copies to where they are; it reads
the whole of a storage through any view of it, and reads its results back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from lowtide.testing.memory import Memory


class Copied(NamedTuple):
    """What a storage copies: from its byte ``start`` on, ``size`` bytes of ``other`` from ``first`` on."""

    start: int
    other: int
    first: int
    size: int


def operate(
    memory: Memory,
    where: str,
    reads: Iterable[int],
    whole: Sequence[int],
    some: Iterable[int],
    over: Mapping[int, Set[int]],
    copied: Mapping[int, Sequence[Copied]],
) -> None:
    """Read and write storages.

    Args:
        memory: the bytes.
        where: what messages call the operation.
        reads: storages that it reads.
        whole: those that it writes from end to end.
        some: those of which it writes some bytes.
        over: for each that is written exactly over some that are read, those.
        copied: what each of ``whole`` is a copy of, in parts.

    Raises:
        WrongByteError: a read finds wrong bytes.
    """
    read, some = dict.fromkeys(reads), [s for s in some if s not in whole]

    def check(spared: Iterable[int], when: str) -> None:
        for storage in read.keys() - set(spared):
            memory.check(storage, where + when)

    check((), "")
    contents = {storage: _contents(memory, storage, copied.get(storage, ())) for storage in whole}
    # What is written over what is read comes last: whatever else is written must leave both alone.
    for storage in (s for s in whole if s not in read and s not in over):
        memory.scribble(storage, _stays(memory, storage, copied.get(storage, ())))
    check(whole, ", having begun to write,")
    for storage in some:
        memory.write_some(storage)
    check((*whole, *some), ", having begun to write,")
    for storage in (s for s in whole if s not in read):
        memory.write(storage, contents[storage])
    check({*whole, *some}.union(*over.values()), ", having written,")
    for storage in (s for s in whole if s in read):
        memory.write(storage, contents[storage])
    for storage in whole:
        memory.check(storage, where + ", reading back,")


def _contents(memory: Memory, written: int, copied: Sequence[Copied]) -> list[int]:
    """What becomes of a storage: copies where it copies, and what never was elsewhere."""
    tokens = memory.tokens(memory.sizes[written])
    for start, other, first, size in copied:
        tokens[start : start + size] = memory.apart[other][first : first + size]
    return tokens


def _stays(memory: Memory, written: int, copied: Sequence[Copied]) -> set[int]:
    """Bytes of a storage that are copied from where they are; not what is copied to several places."""
    found: set[int] = set()
    for start, other, first, size in copied:
        here, there = memory.place.get(written), memory.place.get(other)
        alone = sum(one.other == other for one in copied) == 1
        if here is None or there is None or here[0] != there[0]:
            continue
        if alone and here[1] + start == there[1] + first:
            found.update(range(start, start + size))
    return found
