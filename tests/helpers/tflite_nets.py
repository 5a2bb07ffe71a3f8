"""Models with control flow and state, each the smallest that shows its trouble."""

from __future__ import annotations

import numpy as np

from tflite_building import Graph, Net

WIDTH = 256
"""Elements of the tensors that matter: 1,024 bytes each."""

_SHAPE = (1, WIDTH)


def _constant(graph: Graph, seed: int) -> int:
    return graph.constant(np.random.default_rng(seed).standard_normal(_SHAPE))


def branch() -> bytes:
    """An IF on an input, of which the caller needs another again."""
    net = Net()
    main = net.graph()
    condition, x = main.input((1,), "BOOL"), main.input(_SHAPE)
    result = main.tensor(_SHAPE)
    branches = []
    for name, operator in (("then", "ADD"), ("else", "MUL")):
        graph = net.graph(name)
        inside = graph.input(_SHAPE)
        graph.outputs = [graph.made(operator, [inside, _constant(graph, len(name))])]
        branches.append(graph.position)
    main.op("IF", [condition, x], [result], thenSubgraphIndex=branches[0], elseSubgraphIndex=branches[1])
    main.outputs = [main.made("ADD", [result, x])]
    return net.finish()


def pass_through() -> bytes:
    """An IF whose branches return their inputs, one of them in the other order."""
    net = Net()
    main = net.graph()
    condition, x, y = main.input((1,), "BOOL"), main.input(_SHAPE), main.input(_SHAPE)
    results = [main.tensor(_SHAPE), main.tensor(_SHAPE)]
    straight, crossed = net.graph("straight"), net.graph("crossed")
    straight.outputs = [straight.input(_SHAPE), straight.input(_SHAPE)]
    crossed.outputs = [crossed.input(_SHAPE), crossed.input(_SHAPE)][::-1]
    main.op("IF", [condition, x, y], results, thenSubgraphIndex=1, elseSubgraphIndex=2)
    main.outputs = [main.made("SUB", results), main.made("MUL", [results[0], x])]
    return net.finish()


def loop(*, swap: bool = False, made: tuple[bool, bool] | None = None, turns: int = 5) -> bytes:
    """A WHILE with a counter and two tensors.

    Args:
        swap: whether the body returns these in the other order.
        made: whether it computes what it returns first and second, or hands it through; only what was the
            first tensor if not said.
        turns: how often it runs.
    """
    net = Net()
    main = net.graph()
    x, y = main.input(_SHAPE), main.input(_SHAPE)
    start = main.constant([0], "INT32")
    count, a, b = main.tensor((1,), "INT32"), main.tensor(_SHAPE), main.tensor(_SHAPE)
    test, body = net.graph("condition"), net.graph("body")
    counter = test.input((1,), "INT32")
    test.input(_SHAPE), test.input(_SHAPE)
    verdict = test.tensor((1,), "BOOL")
    test.op("LESS", [counter, test.constant([turns], "INT32")], [verdict])
    test.outputs = [verdict]
    counter, p, q = body.input((1,), "INT32"), body.input(_SHAPE), body.input(_SHAPE)
    more = body.made("ADD", [counter, body.constant([1], "INT32")])
    results = []
    for i, (tensor, is_made) in enumerate(
        zip((q, p) if swap else (p, q), made or (not swap, swap), strict=True)
    ):
        results.append(body.made("ADD", [tensor, _constant(body, 3 + i)]) if is_made else tensor)
    body.outputs = [more, *results]
    main.op("WHILE", [start, x, y], [count, a, b], condSubgraphIndex=1, bodySubgraphIndex=2)
    main.outputs = [main.made("SUB", [a, b]), count]
    return net.finish()


def resource() -> bytes:
    """A resource that CALL_ONCE sets, and that every run reads, adds to, and writes."""
    net = Net()
    main, setup = net.graph(), net.graph("setup")
    x = main.input(_SHAPE)
    for graph in (main, setup):
        handle = graph.tensor((1,), "INT32")
        graph.tensors[handle].type = 13
        if graph is main:
            main.op("CALL_ONCE", [], [], initSubgraphIndex=1)
        graph.op("VAR_HANDLE", [], [handle], sharedName="memory", container="")
        if graph is setup:
            started = setup.made("ADD", [_constant(setup, 7), _constant(setup, 8)])
            setup.op("ASSIGN_VARIABLE", [handle, started], [])
        else:
            value = main.tensor(_SHAPE)
            main.op("READ_VARIABLE", [handle], [value])
            total = main.made("ADD", [value, x])
            main.op("ASSIGN_VARIABLE", [handle, total], [])
            main.outputs = [main.made("MUL", [total, x])]
    return net.finish()


def variable(*, inside: bool = False) -> bytes:
    """A variable that every run adds to: in the first subgraph, or in one that an IF runs.

    In the latter, its position is also that of a tensor of the first subgraph that lies in the arena.
    """
    net = Net()
    main = net.graph()
    if not inside:
        x = main.input(_SHAPE)
        memory = main.tensor(_SHAPE, variable=True)
        main.op("ADD", [x, memory], [memory])
        main.outputs = [main.made("MUL", [main.made("ADD", [memory, x]), x])]
        return net.finish()
    condition, x, y = main.input((1,), "BOOL"), main.input(_SHAPE), main.input(_SHAPE)
    result = main.tensor(_SHAPE)
    for name in ("then", "else"):
        graph = net.graph(name)
        given = graph.input(_SHAPE)
        memory = graph.tensor(_SHAPE, variable=True)
        graph.op("ADD", [given, memory], [memory])
        graph.outputs = [graph.made("MUL", [memory, _constant(graph, 4)])]
    main.op("IF", [condition, x], [result], thenSubgraphIndex=1, elseSubgraphIndex=2)
    main.outputs = [main.made("ADD", [result, y])]
    return net.finish()


def shared() -> bytes:
    """Two IFs that run the same subgraphs, and both results are needed at once."""
    net = Net()
    main = net.graph()
    first, second = main.input((1,), "BOOL"), main.input((1,), "BOOL")
    x = main.input(_SHAPE)
    results = []
    for name, operator in (("then", "ADD"), ("else", "MUL")):
        graph = net.graph(name)
        inside = graph.input(_SHAPE)
        graph.outputs = [graph.made(operator, [graph.made("NEG", [inside]), _constant(graph, len(name))])]
    for condition in (first, second):
        result = main.tensor(_SHAPE)
        main.op("IF", [condition, x], [result], thenSubgraphIndex=1, elseSubgraphIndex=2)
        results.append(result)
    main.outputs = [main.made("SUB", results)]
    return net.finish()


def unused() -> bytes:
    """Tensors that no operator names, which the interpreter gives bytes all the same."""
    net = Net()
    main = net.graph()
    x = main.input(_SHAPE)
    for _ in range(3):
        main.tensor(_SHAPE)
    main.outputs = [main.made("ADD", [main.made("MUL", [x, x]), x])]
    return net.finish()


def branches(seed: int = 0, width: int = 6) -> bytes:
    """A net that forks and joins, with tensors of different sizes, on which first fit by size does badly."""
    random = np.random.default_rng(seed)
    net = Net()
    main = net.graph()
    pool = [main.input(_SHAPE)]
    for _ in range(4 * width):
        kind = random.integers(0, 4)
        x = int(random.choice(pool))
        length = main.tensors[x].shape[1]
        if kind == 0:
            size = int(random.integers(8, 400))
            weights = main.constant(random.standard_normal((size, length)))
            pool.append(main.made("FULLY_CONNECTED", [x, weights, -1], (1, size)))
        elif kind == 1:
            y = int(random.choice(pool))
            shape = (1, length + main.tensors[y].shape[1])
            pool.append(main.made("CONCATENATION", [x, y], shape, axis=1))
        elif kind == 2:
            pool.append(main.made("TANH", [x]))
        else:
            pool.append(main.made("ADD", [x, main.constant(random.standard_normal((1, length)))]))
        if len(pool) > width:
            del pool[int(random.integers(0, len(pool)))]
    total = pool[0]
    for x in pool[1:]:
        shape = (1, main.tensors[total].shape[1] + main.tensors[x].shape[1])
        total = main.made("CONCATENATION", [total, x], shape, axis=1)
    main.outputs = [total]
    return net.finish()


def scratch() -> bytes:
    """Kernels that ask for scratch, one of them for a lot, beside a tensor that lives throughout."""
    net = Net()
    main = net.graph()
    x, y = main.input((1, 8, 8, 4), "INT8", scale=0.05), main.input(_SHAPE)
    weights = main.constant(np.random.default_rng(5).integers(-99, 99, (8, 3, 3, 4)), "INT8", scale=0.02)
    shape = main.constant([1, 16, 16, 8], "INT32")
    grown = main.tensor((1, 16, 16, 8), "INT8", scale=0.5)
    main.op("TRANSPOSE_CONV", [shape, weights, x], [grown], strideW=2, strideH=2)
    mean = main.tensor((1, 8), "INT8", scale=0.5)
    main.op("MEAN", [grown, main.constant([1, 2], "INT32")], [mean])
    total = main.made("ADD_N", [y, main.made("TANH", [y]), main.made("NEG", [y]), y])
    main.outputs = [mean, total]
    return net.finish()


NETS = {
    "scratch": scratch,
    "branch": branch,
    "pass_through": pass_through,
    "loop": loop,
    "swapping loop": lambda: loop(swap=True),
    "swapping loop that makes the first": lambda: loop(swap=True, made=(True, False)),
    "swapping loop that makes both": lambda: loop(swap=True, made=(True, True)),
    "loop without a turn": lambda: loop(swap=True, turns=0),
    "resource": resource,
    "variable": variable,
    "variable in a branch": lambda: variable(inside=True),
    "shared": shared,
    "unused": unused,
    **{f"branches {seed}": lambda seed=seed: branches(seed) for seed in range(6)},
}
