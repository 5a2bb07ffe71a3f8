"""Random models: operators, branches, loops, variables and resources, nested and shared."""

from __future__ import annotations

from random import Random

import numpy as np

from tflite_building import Graph, Net

_SIZES = (3, 8, 16, 40, 100)
_UNARY = ("NEG", "LOGISTIC", "TANH", "RELU", "ABS", "SQUARE", "FLOOR", "RESHAPE", "SOFTMAX")
_BINARY = ("ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM")
_LIMIT = 12
"""Subgraphs of a model, and how deep calls nest is bounded by what is left of them."""


def random_net(seed: int) -> bytes:
    """A model that the interpreter runs; the same for the same seed."""
    return _Maker(Random(seed)).make()


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random, self.net = random, Net()
        self.numbers = np.random.default_rng(random.randrange(1 << 30))
        self.shareable: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
        self.resources = 0

    def make(self) -> bytes:
        main = self.net.graph()
        pool = [main.input((1, self.size())) for _ in range(self.random.randint(1, 3))]
        flags = [main.input((1,), "BOOL") for _ in range(self.random.randint(1, 3))]
        made = self.fill(main, pool, flags, self.random.randint(3, 14))
        count = self.random.randint(1, min(3, len(made)))
        main.outputs = list(dict.fromkeys([*self.random.sample(made, count), made[-1]]))
        return self.net.finish()

    def size(self) -> int:
        return self.random.choice(_SIZES)

    def constant(self, graph: Graph, size: int) -> int:
        return graph.constant(self.numbers.standard_normal((1, size)))

    def length(self, graph: Graph, tensor: int) -> int:
        return int(graph.tensors[tensor].shape[1])

    def fill(self, graph: Graph, pool: list[int], flags: list[int], count: int) -> list[int]:
        """Add operators; the tensors that they make. Some are left without a reader."""
        pool, made = list(pool), []
        for _ in range(count):
            new = self.operator(graph, pool, flags)
            pool += new
            made += new
        return made or [graph.made("NEG", [pool[0]])]

    def operator(self, graph: Graph, pool: list[int], flags: list[int]) -> list[int]:
        x = self.random.choice(pool)
        same = [y for y in pool if self.length(graph, y) == self.length(graph, x)]
        kind = self.random.choices(
            ("unary", "binary", "constant", "concatenate", "connect", "if", "while", "variable", "resource"),
            (6, 6, 3, 3, 3, 3, 2, 1, 1),
        )[0]
        if len(self.net.graphs) >= _LIMIT and kind in ("if", "while", "resource"):
            kind = "unary"
        if kind == "unary":
            name = self.random.choice(_UNARY)
            if name == "RESHAPE":
                shape = graph.constant([1, self.length(graph, x)], "INT32")
                return [graph.made(name, [x, shape])]
            return [graph.made(name, [x], **({"beta": 1.0} if name == "SOFTMAX" else {}))]
        if kind == "binary":
            return [graph.made(self.random.choice(_BINARY), [x, self.random.choice(same)])]
        if kind == "constant":
            other = self.constant(graph, self.random.choice((1, self.length(graph, x))))
            pair = [x, other]
            self.random.shuffle(pair)
            output = graph.tensor((1, self.length(graph, x)))
            graph.op(self.random.choice(_BINARY), pair, [output])
            return [output]
        if kind == "concatenate":
            y = self.random.choice(pool)
            return [
                graph.made(
                    "CONCATENATION", [x, y], (1, self.length(graph, x) + self.length(graph, y)), axis=1
                )
            ]
        if kind == "connect":
            size = self.size()
            weights = graph.constant(self.numbers.standard_normal((size, self.length(graph, x))) / 8)
            return [graph.made("FULLY_CONNECTED", [x, weights, -1], (1, size))]
        return getattr(self, kind + "_")(graph, pool, flags, x)

    def if_(self, graph: Graph, pool: list[int], flags: list[int], x: int) -> list[int]:
        passed = [x, *self.random.sample(pool, min(len(pool), self.random.randint(0, 2)))]
        takes = tuple(self.length(graph, tensor) for tensor in passed)
        fitting = [known for known in self.shareable if known[0] == takes]
        if fitting and self.random.random() < 0.5:
            _, gives, first = self.random.choice(fitting)
            branches = [first, first + 1] if self.random.random() < 0.5 else [first, first]
        else:
            gives = tuple(self.size() for _ in range(self.random.randint(1, 2)))
            branches = [self.callee(takes, gives), self.callee(takes, gives)]
            if branches[1] == branches[0] + 1:
                self.shareable.append((takes, gives, branches[0]))
        results = [graph.tensor((1, size)) for size in gives]
        graph.op(
            "IF",
            [self.random.choice(flags) if flags else self.flag(graph), *passed],
            results,
            thenSubgraphIndex=branches[0],
            elseSubgraphIndex=branches[1],
        )
        return results

    def flag(self, graph: Graph) -> int:
        return graph.constant([self.random.random() < 0.5], "BOOL")

    def callee(self, takes: tuple[int, ...], gives: tuple[int, ...]) -> int:
        """A subgraph of such inputs and outputs; some outputs are inputs, or come twice, if they fit."""
        graph = self.net.graph(f"graph{len(self.net.graphs)}")
        inputs = [graph.input((1, size)) for size in takes]
        made = self.fill(graph, inputs, [], self.random.randint(0, 4))
        for size in gives:
            fitting = [t for t in (*inputs, *made) if self.length(graph, t) == size]
            if fitting and self.random.random() < 0.7:
                graph.outputs.append(self.random.choice(fitting))
            else:
                x = self.random.choice(made)
                weights = graph.constant(self.numbers.standard_normal((size, self.length(graph, x))) / 8)
                graph.outputs.append(graph.made("FULLY_CONNECTED", [x, weights, -1], (1, size)))
        return graph.position

    def while_(self, graph: Graph, pool: list[int], flags: list[int], x: int) -> list[int]:
        carried = [x, *self.random.sample(pool, min(len(pool), self.random.randint(0, 2)))]
        sizes = tuple(self.length(graph, tensor) for tensor in carried)
        test = self.net.graph(f"condition{len(self.net.graphs)}")
        counter = test.input((1,), "INT32")
        for size in sizes:
            test.input((1, size))
        verdict = test.tensor((1,), "BOOL")
        turns = test.constant([self.random.randint(0, 3)], "INT32")
        test.op("LESS", [counter, turns], [verdict])
        test.outputs = [verdict]
        body = self.net.graph(f"body{len(self.net.graphs)}")
        counter = body.input((1,), "INT32")
        inputs = [body.input((1, size)) for size in sizes]
        made = self.fill(body, inputs, [], self.random.randint(0, 4))
        more = body.made("ADD", [counter, body.constant([1], "INT32")])
        body.outputs = [more]
        for size in sizes:
            fitting = [t for t in (*inputs, *made) if self.length(body, t) == size]
            body.outputs.append(self.random.choice(fitting))
        start = graph.constant([0], "INT32")
        results = [graph.tensor((1,), "INT32"), *(graph.tensor((1, size)) for size in sizes)]
        graph.op(
            "WHILE",
            [start, *carried],
            results,
            condSubgraphIndex=test.position,
            bodySubgraphIndex=body.position,
        )
        return results[1:]

    def variable_(self, graph: Graph, pool: list[int], flags: list[int], x: int) -> list[int]:
        memory = graph.tensor((1, self.length(graph, x)), variable=True)
        graph.op("ADD", [x, memory], [memory])
        return [graph.made("TANH", [memory])]

    def resource_(self, graph: Graph, pool: list[int], flags: list[int], x: int) -> list[int]:
        if graph.position:
            return [graph.made("ABS", [x])]
        self.resources += 1
        size, name = self.length(graph, x), f"memory{self.resources}"
        setup = self.net.graph(f"setup{len(self.net.graphs)}")
        graph.op("CALL_ONCE", [], [], initSubgraphIndex=setup.position)
        started = setup.made("MUL", [self.constant(setup, size), self.constant(setup, size)])
        setup.op("ASSIGN_VARIABLE", [_handle(setup, name), started], [])
        handle = _handle(graph, name)
        value = graph.tensor((1, size))
        graph.op("READ_VARIABLE", [handle], [value])
        total = graph.made("SUB", [value, x])
        graph.op("ASSIGN_VARIABLE", [handle, total], [])
        return [value, total]


def _handle(graph: Graph, name: str) -> int:
    handle = graph.tensor((1,), "INT32")
    graph.tensors[handle].type = 13  # RESOURCE
    graph.op("VAR_HANDLE", [], [handle], sharedName=name, container="")
    return handle
