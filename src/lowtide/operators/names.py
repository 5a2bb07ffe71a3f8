"""What the name of an operator tells, whoever wrote it: ``aten.clone.default``, ``aten::clone.out``."""

from __future__ import annotations

import re

_RANDOM = re.compile(
    r"rand|bernoulli|multinomial|dropout|poisson|exponential|uniform|^normal|geometric|empty"
)


def base_name(operator: str) -> str:
    """The name without namespace and overload: ``clone``."""
    parts = re.split(r"::|\.", operator)
    return parts[1] if len(parts) > 1 else parts[0]


def is_random(operator: str) -> bool:
    """Whether the result may be another one every time: random numbers, or bytes that nobody set."""
    return _RANDOM.search(base_name(operator)) is not None
