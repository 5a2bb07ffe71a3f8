"""The smallest arena of a tiny problem, by trying every order. Nothing of Lowtide's packers is used.

Take any best plan and put its buffers down anew, lowest offset first, each at the lowest offset that is
free: none ends above where it was, because everything below it has only moved down. So some order of
the buffers, each put as low as it can be, gives a best plan, and there are few orders of few buffers.
"""

from __future__ import annotations

from lowtide.ir.problem import Buffer, Problem, align_up


def smallest_arena(problem: Problem) -> int:
    """Bytes of the best plan of a problem with one arena and without permissions; reserved bytes included.

    Orders are tried depth first; one that already reaches as high as the best so far is given up.
    """
    reserved = problem.arenas[0].reserved if problem.arenas else 0
    buffers = [buffer for buffer in problem.buffers if buffer.size and buffer.offset is None]
    pinned = [(b, b.offset) for b in problem.buffers if b.offset is not None and b.size]
    floor = max([reserved, *(offset + buffer.size for buffer, offset in pinned)])
    # A buffer of no bytes conflicts with nothing, but it has an offset too: its pin, or 0.
    floor = max([floor, *(buffer.offset or 0 for buffer in problem.buffers if not buffer.size)])
    best = [sum(b.size + b.alignment for b in buffers) + floor]

    def place(left: list[Buffer], placed: list[tuple[Buffer, int]], top: int) -> None:
        if top >= best[0]:
            return
        if not left:
            best[0] = top
            return
        for i, buffer in enumerate(left):
            offset = _lowest(buffer, placed, reserved)
            place(left[:i] + left[i + 1 :], [*placed, (buffer, offset)], max(top, offset + buffer.size))

    place(buffers, pinned, floor)
    return best[0]


def _lowest(buffer: Buffer, placed: list[tuple[Buffer, int]], reserved: int) -> int:
    """The lowest aligned offset where no placed buffer alive with this one is in the way."""
    offset = align_up(reserved, buffer.alignment)
    taken = sorted((at, at + other.size) for other, at in placed if _meet(buffer, other))
    for start, stop in taken:
        if start < offset + buffer.size and offset < stop:
            offset = align_up(stop, buffer.alignment)
    return offset


def _meet(a: Buffer, b: Buffer) -> bool:
    return any(s < q and p < t for s, t in a.lifetime for p, q in b.lifetime)
