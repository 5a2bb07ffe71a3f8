"""Random programs that ExecuTorch can emit."""

from __future__ import annotations

import copy
import re
from random import Random

import torch
from torch.utils import _pytree as pytree

from random_programs import Module, Writer


class EmittableWriter(Writer):
    """Leaves out what ExecuTorch cannot emit, and decisions that rounding decides; writes to inputs too.

    Kernels round in other ways than eager PyTorch's do. Whether a sum that is zero but for rounding, as
    that of a layer norm, is above zero says nothing about a plan.
    """

    def let(self, block, expression):
        # The runtime has no kernel that sorts.
        expression = expression.replace(".sort(1)[0]", ".amax(1, keepdim=True)")
        # ExecuTorch refuses strides of 0, which a branch sees where it captures what was expanded.
        expression = re.sub(r"\.expand\(3, 4\)$", ".repeat(3, 1)", expression)
        # Constants inside branches do not get through to_edge.
        expression = re.sub(r"torch\.tensor\(([\d.]+)\)", r"\1", expression)
        super().let(block, expression.replace(" > 0,", " > 0.0123,"))

    def write_over(self, block):
        self.write_in_place(block)

    def write_in_place(self, block):
        """To a clone, or at the top, where export allows it, to an input itself."""
        at_top = len(block.indent) == 8
        if not at_top or self.random.random() < 0.4:
            super().write_in_place(block)
            return
        other = self.pick(block)
        kind = self.random.choice((f"add_({other})", f"copy_({other})", "mul_(0.5)"))
        block.add(f"x0.{kind}")

    def verdict(self, block):
        return super().verdict(block).replace(".sum() > 0", ".square().sum() > 3.3")

    def loop(self, block, depth):
        self.cond(block, depth)

    def associative_scan(self, block, depth):
        self.scan(block, depth)

    def call(self, block, depth):
        self.cond(block, depth)


def program(seed: int) -> Module:
    """The program of a seed."""
    return EmittableWriter(Random(seed), steps=4 + seed % 5, depth=2).write()


def expected(made: Module, inputs_written: list[str]) -> list[list[object]]:
    """Flat outputs of the model itself; new values of inputs that it writes to come first."""
    model, found = copy.deepcopy(made.module), []
    for call in copy.deepcopy(made.inputs):
        with torch.no_grad():
            outputs = pytree.tree_leaves(model(*call))
        written = [call[int(name.removeprefix("x")) + 1] for name in inputs_written]
        found.append(copy.deepcopy([*written, *outputs]))
    return found
