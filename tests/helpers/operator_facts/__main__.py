"""Counts, for a slice of the operators: ``cd tests && python -m operator_facts 'fft*' ...``."""

from __future__ import annotations

import sys
from collections import Counter

import torch

from operator_facts.cases import cases_of, names_like
from operator_facts.trying import try_case


def main(patterns: list[str]) -> None:
    """Try what the patterns fit, and print every fault and the counts."""
    torch.set_num_threads(1)
    names = sorted({name for pattern in patterns for name in names_like(pattern)})
    cases = 0
    kinds: Counter[str] = Counter()
    for name in names:
        print(f"> {name}", flush=True)
        for case in cases_of(name, thorough=True):
            cases += 1
            found = list(try_case(case))
            kinds.update({fault.kind for fault in found})
            for fault in found:
                print(f"{case} [{fault.kind}] {fault.text[:300]}", flush=True)
    print(f"{len(names)} operators, {cases} cases: {dict(kinds)}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["*"])
