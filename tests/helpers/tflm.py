"""The real interpreter of TensorFlow Lite Micro, in a process of its own, which wrong offsets may end."""

from __future__ import annotations

import faulthandler
import os
import pickle
import re
import tempfile
from dataclasses import dataclass

import numpy as np

_HEAD = re.compile(r"Arena allocation head (\d+) bytes")
_TAIL = re.compile(r"Arena allocation tail (\d+) bytes")
_ARENA = 1 << 20


class CrashedError(Exception):
    """The interpreter ended its process, or refused; the message has what it said."""


@dataclass(frozen=True)
class Run:
    """What several invocations in a row returned, and what the interpreter said of its arena."""

    outputs: list[list[np.ndarray]]
    head: int
    tail: int

    def same_bits(self, other: Run) -> bool:
        """Whether every output of every invocation is equal, bit for bit."""
        mine = [a.tobytes() for outputs in self.outputs for a in outputs]
        return mine == [a.tobytes() for outputs in other.outputs for a in outputs]


def run(model: bytes, *, runs: int = 3, seed: int = 0, arena: int | None = None) -> Run:
    """Invoke a model several times on random inputs, the same for every call with one seed."""
    return _in_child(lambda: _run(model, runs, seed, arena or max(_ARENA, 4 * len(model))))


def smallest_arena(model: bytes, *, most: int = 1 << 22) -> int:
    """The fewest bytes of an arena that the interpreter accepts, to 16 bytes."""
    low, high = 0, most // 16
    while high - low > 1:
        middle = (low + high) // 2
        try:
            run(model, runs=1, arena=16 * middle)
        except CrashedError:
            low = middle
        else:
            high = middle
    return 16 * high


def _run(model: bytes, runs: int, seed: int, arena: int) -> Run:
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(model, arena_size=arena)
    random = np.random.default_rng(seed)
    outputs = []
    for _ in range(runs):
        for index in range(_count(interpreter.get_input_details)):
            details = interpreter.get_input_details(index)
            interpreter.set_input(_random_array(random, details["shape"], details["dtype"]), index)
        interpreter.invoke()
        count = _count(interpreter.get_output_details)
        outputs.append([interpreter.get_output(index).copy() for index in range(count)])
    said = _said(interpreter.print_allocations)
    head, tail = _HEAD.search(said), _TAIL.search(said)
    assert head is not None, said
    assert tail is not None, said
    return Run(outputs, int(head.group(1)), int(tail.group(1)))


def _count(details) -> int:
    count = 0
    while True:
        try:
            details(count)
        except (IndexError, RuntimeError, ValueError):
            return count
        count += 1


def _random_array(random: np.random.Generator, shape, dtype) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)


def _said(act) -> str:
    """What a call writes to the standard error stream of the process."""
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            act()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        return file.read().decode()


def _in_child(act):
    """The result of a call in a forked child, however that ends."""
    reader, writer = os.pipe()
    log = tempfile.TemporaryFile()  # noqa: SIM115
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()
            os.close(reader)
            os.dup2(log.fileno(), 2)
            try:
                answer = pickle.dumps((True, act()))
            except Exception as error:
                answer = pickle.dumps((False, f"{type(error).__name__}: {error}"))
            with os.fdopen(writer, "wb") as file:
                file.write(answer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read()
    _, status = os.waitpid(child, 0)
    log.seek(0)
    said = log.read().decode(errors="replace").strip()
    log.close()
    if not answer:
        raise CrashedError(f"the interpreter ended with {status}: {said}")
    done, value = pickle.loads(answer)
    if not done:
        raise CrashedError(f"{value} {said}")
    return value
