"""Random PyTorch modules that torch.export takes: source code, written and compiled.

The module is readable text, so that a failure can be looked at, and what export makes of it is
export's business: lifted closures, functionalised buffers, clones that it inserts. Forms that it refuses
are in ``random_graphs``. As there, the first input is a vector of numbers that decides every branch
and loop count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_rows
from torch.compiler import nested_compile_region

CONTROLS = 6
MOST_TRIPS = 3

SCOPE = {
    "torch": torch,
    "nn": nn,
    "associative_scan": associative_scan,
    "scan": scan,
    "while_loop": while_loop,
    "map_rows": map_rows,
    "nested_compile_region": nested_compile_region,
}

HEAD = """
@nested_compile_region
def shared(a, b):
    return torch.tanh(a + b) * a, a - b

class Program(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 12).reshape(3, 4), requires_grad=False)
        self.register_buffer("state", torch.full((3, 4), 0.5))

    def forward(self, n, {inputs}):
{body}
        return ({returned},)
"""


@dataclass(frozen=True)
class Module:
    """A module, its source, and several sets of inputs: every number 0, 1, many, and mixed."""

    module: nn.Module
    source: str
    inputs: list[tuple[torch.Tensor, ...]]

    def export(self, *, decompose: bool) -> torch.export.ExportedProgram:
        """The module exported; the generic associative scan needs decomposition to be rid of ``vmap``."""
        exported = torch.export.export(self.module, self.inputs[0])
        if decompose or "associative_scan" in self.source:
            exported = exported.run_decompositions()
        return exported


@dataclass
class Block:
    """The lines of one function, and its variables; all of them are 3 by 4."""

    indent: str
    live: list[str]
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        self.lines.append(self.indent + line)


class Writer:
    """Writes one module.

    Args:
        random: every decision.
        steps: about how many statements.
        depth: how deep calls nest.
    """

    def __init__(self, random: Random, *, steps: int = 14, depth: int = 2) -> None:
        self.random, self.left, self.depth = random, steps, depth
        self.names = 0

    def write(self) -> Module:
        inputs = [f"x{i}" for i in range(self.random.randint(1, 2))]
        body = Block("        ", [*inputs, "self.weight"])
        self.fill(body, self.depth)
        if self.random.random() < 0.6:
            self.change_state(body)
        while self.left > 0:
            self.fill(body, self.depth)
        returned = [self.returned(body) for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.4:
            returned.append(self.random.choice([*returned, *inputs, "x0.t()", "None", "7"]))
        source = HEAD.format(
            inputs=", ".join(inputs), body="\n".join(body.lines), returned=", ".join(returned)
        )
        scope: dict[str, Any] = dict(SCOPE)
        exec(compile(source, "<random program>", "exec"), scope)
        numbers = [[k] * CONTROLS for k in (0, 1, MOST_TRIPS)]
        numbers.append([self.random.randint(0, MOST_TRIPS) for _ in range(CONTROLS)])
        generator = torch.Generator().manual_seed(self.random.randrange(2**31))
        calls = [
            (torch.tensor(row), *(torch.randn(3, 4, generator=generator) for _ in inputs)) for row in numbers
        ]
        return Module(scope["Program"](), source, calls)

    # Decisions.

    def new(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def pick(self, block: Block) -> str:
        """A variable; recent ones more often, so that others die."""
        return self.random.choice(block.live[-4:] if self.random.random() < 0.5 else block.live)

    def picks(self, block: Block, count: int) -> list[str]:
        return [self.pick(block) for _ in range(count)]

    def number(self) -> str:
        return f"n[{self.random.randrange(CONTROLS)}]"

    def verdict(self, block: Block) -> str:
        if self.random.random() < 0.25:
            return f"{self.pick(block)}.sum() > 0"
        return f"{self.number()} > {self.random.randint(0, 1)}"

    def returned(self, block: Block) -> str:
        value = self.pick(block)
        return self.random.choice((value, value, value, f"{value}.t()", f"{value}[1:]", f"{value}.sum()"))

    # Statements.

    def fill(self, block: Block, depth: int) -> None:
        for _ in range(self.random.randint(2, 5)):
            if self.left <= 0:
                return
            self.left -= 1
            if depth > 0 and self.random.random() < 0.3:
                calls: tuple[Callable[[Block, int], None], ...] = (
                    self.cond,
                    self.cond,
                    self.loop,
                    self.map,
                    self.scan,
                    self.associative_scan,
                    self.call,
                )
                self.random.choice(calls)(block, depth - 1)
            elif self.random.random() < 0.2:
                self.write_in_place(block)
            elif self.random.random() < 0.1:
                self.write_over(block)
            else:
                self.compute(block)

    def let(self, block: Block, expression: str) -> None:
        name = self.new()
        block.add(f"{name} = {expression}")
        block.live.append(name)

    def compute(self, block: Block) -> None:
        a, b = self.picks(block, 2)
        expressions = (
            f"torch.relu({a})",
            f"{a} + {b}",
            f"{a} * {b}",
            f"torch.sin({a}) - {b}",
            f"{a}.softmax(-1)",
            f"{a} @ torch.tanh({b}.t() @ {a})",
            f"{a}.t().reshape(3, 4)",
            f"{a}.reshape(4, 3).t().reshape(3, 4)",
            f"{a}.reshape(12).view(3, 4) + {b}",
            f"{a}.transpose(0, 1).contiguous().view(3, 4)",
            f"torch.cat([{a}[:1], {b}[1:]])",
            f"torch.stack({a}.unbind(0)[::-1])",
            f"sum({a}.sum(0).expand(3, 4).split(1)).expand(3, 4)",
            f"torch.cat({a}.chunk(2, 1)[::-1], 1)",
            f"{a}.sort(1)[0] + {a}.max(0)[0]",
            f"nn.functional.layer_norm({a}, (4,))",
            f"torch.where({a} > 0, {a}, {b})",
            f"{a} + {b}.mean()",
            f"{a} * torch.tensor({self.random.randint(2, 9)}.0)",
            f"torch.zeros_like({a}) - {b}",
            f"{a}.new_full((3, 4), 0.5) + torch.ones_like({b})",
        )
        self.let(block, self.random.choice(expressions))

    def write_in_place(self, block: Block) -> None:
        a, b = self.picks(block, 2)
        name = self.new()
        block.add(f"{name} = {a}.contiguous().clone()")
        block.live.append(name)
        part = self.random.choice((name, f"{name}[1:]", f"{name}.t()", f"{name}.view(12)"))
        other = {name: b, f"{name}[1:]": f"{b}[:2]", f"{name}.t()": f"{b}.t()"}.get(part, f"{b}.reshape(12)")
        kinds = (f"add_({other})", f"copy_({other})", "mul_(0.5)", "zero_()", "fill_(0.5)", "relu_()")
        block.add(f"{part}.{self.random.choice(kinds)}")

    def write_over(self, block: Block) -> None:
        """Memory that nobody has written, then a write of all of it, in parts or not; or its shape alone."""
        a, b = self.picks(block, 2)
        name = self.new()
        made = self.random.choice(("torch.empty(3, 4)", f"{a}.new_empty(3, 4)", f"torch.empty_like({a})"))
        block.add(f"{name} = {made}")
        kinds = (
            (f"{name}.fill_(2.0)",),
            (f"{name}.copy_({b})",),
            (f"{name}[:2] = {a}[:2]", f"{name}[2:] = {b}[2:]"),
            (f"{name}[torch.tensor([0, 1, 2])] = {b}",),
            (f"{name} = torch.zeros_like({name})",),
        )
        for line in self.random.choice(kinds):
            block.add(line)
        block.live.append(name)

    def change_state(self, block: Block) -> None:
        value = self.pick(block)
        kinds = (f"add_({value})", "mul_(0.5)", f"copy_({value})", f"[1:].copy_({value}[1:])")
        kind = self.random.choice(kinds)
        block.add(f"self.state{kind if kind.startswith('[') else '.' + kind}")
        self.let(block, "self.state + 1")

    # Calls.

    def function(
        self, block: Block, prefix: str, params: list[str], depth: int, count: int, more: tuple[str, ...] = ()
    ) -> str:
        """A local function that returns so many values, ``more`` before them."""
        name = self.new(prefix)
        block.add(f"def {name}({', '.join(params)}):")
        captured = [v for v in block.live if self.random.random() < 0.3]
        inner = Block(block.indent + "    ", [*captured, *(p for p in params if p != "i")])
        if self.random.random() < 0.8:
            self.fill(inner, depth)
        values = [f"{v}.contiguous().clone()" for v in self.picks(inner, count)]
        inner.add(f"return {', '.join((*more, *values))},")
        block.lines += inner.lines
        return name

    def take(self, block: Block, expression: str, count: int) -> None:
        names = [self.new() for _ in range(count)]
        block.add(f"{', '.join(names)}, = {expression}")
        block.live += names

    def cond(self, block: Block, depth: int) -> None:
        passed = list(dict.fromkeys(self.picks(block, self.random.randint(1, 2))))
        params = [self.new("p") for _ in passed]
        count = self.random.randint(1, 3)
        branches = [self.function(block, "branch", params, depth, count) for _ in range(2)]
        self.take(
            block, f"torch.cond({self.verdict(block)}, {', '.join(branches)}, ({', '.join(passed)},))", count
        )

    def loop(self, block: Block, depth: int) -> None:
        count = self.random.randint(1, 3)
        inits = self.picks(block, count)
        params = ["i", *(self.new("p") for _ in range(count))]
        test = self.new("test")
        block.add(f"def {test}({', '.join(params)}):")
        block.add(f"    return i < {self.number()}")
        if count > 1 and self.random.random() < 0.4:
            body = self.new("swap")
            block.add(f"def {body}({', '.join(params)}):")
            swapped = [f"{p}.clone()" for p in params[2:] + params[1:2]]
            block.add(f"    return i + 1, {', '.join(swapped)}")
        else:
            body = self.function(block, "body", params, depth, count, ("i + 1",))
        start = "torch.zeros((), dtype=torch.int64)"
        clones = ", ".join(f"{v}.contiguous().clone()" for v in inits)
        names = [self.new() for _ in inits]
        block.add(f"_, {', '.join(names)} = while_loop({test}, {body}, ({start}, {clones}))")
        block.live += names

    def map(self, block: Block, depth: int) -> None:
        outer = self.pick(block)
        body = self.new("row")
        row = self.new("p")
        block.add(f"def {body}({row}):")
        block.add(f"    return torch.relu({row} + {self.pick(block)}.sum(0)) * {row}")
        self.let(block, f"map_rows({body}, {outer}.clone())")

    def scan(self, block: Block, depth: int) -> None:
        """Carries that change, or trade places; a row is of what was carried in, or of what is new."""
        rows, other, *inits = self.picks(block, 2 + self.random.randint(1, 3))
        body = self.new("cell")
        carried = [self.new("c") for _ in inits]
        block.add(f"def {body}(cs, r):")
        block.add(f"    {', '.join(carried)}, = cs")
        block.add(f"    d = torch.tanh({self.random.choice(carried)} + r * {other}[0])")
        turned = [f"{c}.clone()" for c in carried[1:] + carried[:1]]
        if len(inits) == 1 or self.random.random() < 0.5:
            turned[self.random.randrange(len(turned))] = "d"
        row = self.random.choice(("d * r", f"{carried[0]}.clone()", f"{carried[-1]} + d"))
        block.add(f"    return ({', '.join(turned)},), {row}")
        lasts = [self.new() for _ in inits]
        stacked = self.new()
        starts = ", ".join(f"{init}[0].clone()" for init in inits)
        block.add(f"({', '.join(lasts)},), {stacked} = scan({body}, ({starts},), {rows}.contiguous())")
        self.let(block, " + ".join((stacked, *lasts)))

    def associative_scan(self, block: Block, depth: int) -> None:
        rows = f"{self.pick(block)}.contiguous()"
        kind = self.random.choice(("a + b", "torch.maximum(a, b)"))
        self.let(block, f"associative_scan(lambda a, b: {kind}, {rows}, 0, combine_mode='generic')")

    def call(self, block: Block, depth: int) -> None:
        for _ in range(self.random.randint(1, 2)):
            a, b = self.picks(block, 2)
            self.take(block, f"shared({a}, {b})", 2)


def random_module(random: Random, **options: Any) -> Module:
    """A random module and its inputs; see Writer for the options."""
    return Writer(random, **options).write()
