"""Every path through a program, one after another."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.testing.machine import Choose


class Paths:
    """Ways to choose, up to a limit: every one there is, the first of each choice first.

    Args:
        limit: the most that are taken.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.exhausted = False

    def choosers(self) -> Iterator[Choose]:
        """Run each to the end before asking for the next: what it chose decides where the next one turns.

        When they are done, ``exhausted`` says whether there are no others.
        """
        prefix: list[int] = []
        for _ in range(self.limit):
            taken: list[tuple[int, int]] = []

            def choose(options: int, taken: list[tuple[int, int]] = taken, prefix: list[int] = prefix) -> int:
                pick = prefix[len(taken)] if len(taken) < len(prefix) else 0
                taken.append((pick, options))
                return pick

            yield choose
            while taken and taken[-1][0] + 1 >= taken[-1][1]:
                taken.pop()
            if not taken:
                self.exhausted = True
                return
            prefix = [pick for pick, _ in taken[:-1]] + [taken[-1][0] + 1]
