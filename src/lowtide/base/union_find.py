"""Disjoint sets of positions (union-find), with path compression."""

from __future__ import annotations


class Classes:
    """Disjoint sets of the positions below ``count``, each at first alone."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, member: int) -> int:
        """The member that stands for this one's class."""
        root = member
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[member] != root:
            self._parent[member], member = root, self._parent[member]
        return root

    def merge(self, a: int, b: int) -> int:
        """Join two classes; the lower position stands for both."""
        low, high = sorted((self.find(a), self.find(b)))
        self._parent[high] = low
        return low

    def members(self) -> dict[int, list[int]]:
        """Members of each class by its representative, in order."""
        found: dict[int, list[int]] = {}
        for member in range(len(self._parent)):
            found.setdefault(self.find(member), []).append(member)
        return found
