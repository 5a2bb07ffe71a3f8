"""Tiny models and programs to reorder, all their orders, and what a program means whatever its order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from lowtide.ir.program import Program
from lowtide.lifetimes.liveness import bits
from lowtide.lifetimes.lowering import lower
from lowtide.testing import random_program
from lowtide.transforms.reorder.work import Instant, LiveRange, Model, Sharing, Work


def random_model(random: Random, steps: int = 8) -> Model:
    """A model with any partial order, shared inputs, lasting values, regions that are run, and sharing."""
    count = random.randint(1, steps)
    density = random.choice((0.1, 0.25, 0.5))
    earlier: list[int] = []
    for step in range(count):
        mask = 0
        for other in range(step):
            if random.random() < density:
                mask |= 1 << other | earlier[other]
        earlier.append(mask)
    later = [[j for j in range(count) if earlier[j] >> i & 1] for i in range(count)]
    ranges = []
    for step in range(count):
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            users = 1 << step | bits(j for j in later[step] if random.random() < 0.6)
            ranges.append(LiveRange(random.choice((1, 1, 2, 3, 4, 7)), step, users, random.random() < 0.12))
    for _ in range(random.randint(0, 2)):
        users = bits(j for j in range(count) if random.random() < 0.4)
        ranges.append(LiveRange(random.choice((1, 2, 5)), -1, users, random.random() < 0.3))
    work = tuple(_random_work(random, ranges, step) for step in range(count))
    return Model(tuple(earlier), tuple(ranges), work, random.choice((0, 3)), random.choice((0, 0, 5)))


def _random_work(random: Random, ranges: list[LiveRange], step: int) -> Work:
    made = [k for k, life in enumerate(ranges) if life.start == step]
    old = [k for k, life in enumerate(ranges) if life.users >> step & 1 and life.start != step]
    if random.random() < 0.1:
        instants = [Instant(0, bits(made))]
        for _ in range(random.randint(1, 3)):
            touched = bits(k for k in made + old if random.random() < 0.6)
            instants.append(Instant(random.choice((0, 0, 2, 5)), touched))
        return Work(tuple(instants))
    shares = []
    for new in made if random.random() < 0.6 else ():
        for ending in old:
            sizes = ranges[new].size, ranges[ending].size
            if sizes[0] == sizes[1] and random.random() < 0.7:
                shares.append(Sharing(new, ending, sizes[0], whole=True))
            elif random.random() < 0.1:
                shares.append(Sharing(new, ending, min(sizes), whole=False))
    return Work((), tuple(shares))


def least_peak(model: Model) -> int:
    """The least peak of all orders, by trying them all."""
    best = model.peak(range(model.count))

    def extend(done: int, live: int, peak: int) -> None:
        nonlocal best
        if peak >= best:
            return
        if done == model.everything:
            best = peak
        for step in range(model.count):
            if not done >> step & 1 and not model.earlier[step] & ~done:
                most, after = model.run(step, done, live)
                extend(done | 1 << step, after, max(peak, most))

    extend(0, model.live(0), model.floor)
    return best


def all_orders(earlier: tuple[int, ...], most: int) -> Iterator[tuple[int, ...]]:
    """Orders that keep a partial order, as many as asked for at the most."""
    count = len(earlier)
    given = 0

    def extend(done: int, order: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        nonlocal given
        if len(order) == count:
            given += 1
            yield order
        for step in range(count):
            if given < most and not done >> step & 1 and not earlier[step] & ~done:
                yield from extend(done | 1 << step, (*order, step))

    return extend(0, ())


def tiny_program(random: Random, *, steps: int = 6, depth: int = 0) -> Program:
    """A random program whose kernels allow some outputs over some inputs; no state is written back.

    What is written back shares the state's bytes if the given order allows that, and then stays so.
    """
    program = replace(random_program(random, steps=steps, depth=depth), writebacks=())

    def size(value: int) -> int | None:
        found = program.values[value]
        return None if found.storage is None or not found.layout else program.storages[found.storage].size

    regions = []
    for region in program.regions:
        found = []
        for step in region.steps:
            pairs = tuple(
                (written, read)
                for written in step.writes
                for read in step.reads
                if size(written) and size(written) == size(read) and random.random() < 0.7
            )
            found.append(replace(step, overwrites=pairs))
        regions.append(replace(region, steps=tuple(found)))
    return replace(program, regions=tuple(regions))


def _plain(name: str) -> str:
    """A name without the number that sets what is run again apart."""
    return re.sub(r"/\d+$", "", name)


def meaning(program: Program, seed: int) -> tuple[object, ...]:
    """What a program computes on one path, steps being functions of what they read: outcome and effects.

    The contents of a storage are a term: which step made them, of what. Steps go by their names, so that
    programs that differ in the order of steps can be compared.
    """
    flow = lower(program)
    contents: dict[int, object] = {i: ("given", s.name) for i, s in enumerate(program.storages)}
    names: list[tuple[object, ...]] = []
    for activation in flow.activations:
        region = program.regions[activation.region].name
        caller: tuple[object, ...] = ()
        if activation.parent is not None:
            above = flow.activations[activation.parent]
            caller = (
                names[activation.parent],
                program.regions[above.region].steps[activation.call_step].name,
            )
        names.append((*caller, region))
    effects: list[object] = []
    visits: dict[object, int] = {}
    tick = 0
    while True:
        point = flow.points[tick]
        region = program.regions[flow.activations[point.activation].region]
        inside = 0 <= point.step < len(region.steps)
        name = (names[point.activation], _plain(region.steps[point.step].name) if inside else "", point.kind)
        seen = tuple(contents[s] for s in dict.fromkeys(point.reads))
        if point.kind == "exit":
            state = [i for i, s in enumerate(program.storages) if s.kind in ("state", "input")]
            return (*seen, *(contents[i] for i in state), *effects)
        if point.kind != "entry":
            for storage in point.writes:
                contents[storage] = hash((name, _plain(program.storages[storage].name), seen))
            for storage in point.partial:
                contents[storage] = hash(
                    (name, _plain(program.storages[storage].name), seen, contents[storage])
                )
            copied = [[contents[s] for s in copy.source_storages] for copy in point.copies]
            for copy, terms in zip(point.copies, copied, strict=True):
                target = copy.target_storage
                if target is not None:
                    kept = () if copy.part is None else (contents[target], copy.part)
                    contents[target] = hash((tuple(terms), kept))
            if point.kind == "step" and region.steps[point.step].effects:
                effects.append((name, seen))
        visits[name] = visits.get(name, 0) + 1
        choice = Random(hash((seed, str(name), visits[name]))).randrange(1 << 16)
        last = visits[name] > 3 and point.kind in ("test", "next")
        tick = point.successors[-1 if last else choice % len(point.successors)]
