"""A fit in words: what was reached, at what price, and what stands in the way of less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.units import amount, many

if TYPE_CHECKING:
    from lowtide.fitting import Fitted, Proof
    from lowtide.transforms.fit import Floor
    from lowtide.transforms.fit.values import StepKind
    from lowtide.transforms.split import SplitStep

KINDS: dict[StepKind, str] = {
    "packing": "packed by Lowtide",
    "in_place": "outputs over inputs that die",
    "elide_copies": "copies left out",
    "folding": "constants folded",
    "rewrite": "operators rewritten",
    "order": "steps moved",
    "split": "chains run in parts",
}
"""What each kind of step is called."""

RUNTIMES = {"executorch": "ExecuTorch", "pytorch": "PyTorch"}
"""What each runtime is called."""

_BARRIERS = 3


def outcome(found: Fitted) -> str:
    """Whether it fits, in one line."""
    part, whole = found.arena_bytes, found.arena_before
    taken = f"{amount(part)}, {_of(part, whole)} of {amount(whole)}"
    price = f"{found.work:.3f} times the multiply-adds"
    limit = found.limits.max_arena
    if limit is None:
        return f"the smallest arena that was found is {taken}, at {price}"
    if found.fits:
        return f"fits {amount(limit)}: the arena is {taken}, at {price}"
    over = found.arena_bytes - limit
    return (
        f"does not fit {amount(limit)}, by {amount(over)}: the smallest that was found is {taken}, at {price}"
    )


def _of(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "all"


def sentences(found: Fitted) -> list[str]:
    """What else there is to say, a sentence a line."""
    said = [floor_sentence(found.floor), bound_sentence(found), planning_sentence(found)]
    if found.barriers:
        more = f" and {len(found.barriers) - _BARRIERS:,} more" if len(found.barriers) > _BARRIERS else ""
        names = ", ".join(found.barriers[:_BARRIERS])
        said.append(f"No part crosses {names}{more}: nobody can tell what they do beside their results.")
    if not found.complete and not found.interrupted:
        said.append("The search ended with its time: a longer --timeout may find less.")
    said += found.remarks
    if found.proof is not None:
        said.append(proof_sentence(found.proof))
    return said


def floor_sentence(floor: Floor) -> str:
    """What no execution in parts avoids, and what that consists of."""
    named = (
        (floor.input_bytes, "inputs"),
        (floor.output_bytes, "outputs"),
        (floor.operator_bytes, f"what {floor.step} must have whole"),
    )
    parts = [f"{size:,} for {what}" for size, what in named if size]
    return f"The floor of running in parts is {amount(floor.bytes)}: {' and '.join(parts) or 'nothing'}."


def bound_sentence(found: Fitted) -> str:
    """Whether a better plan of the fitted program could be smaller."""
    if found.arena_bytes == found.lower_bound_bytes:
        return "No plan of the program as it is now takes less."
    return f"No plan of the program as it is now takes less than {amount(found.lower_bound_bytes)}."


def planning_sentence(found: Fitted) -> str:
    """How to plan the program so that it takes this arena."""
    flags = [name for name in ("in_place", "elide_copies") if getattr(found.allowed, name)]
    if found.runtime == "executorch":
        given = ", ".join(f"{flag}=True" for flag in flags)
        return f"Plan it with MemoryPlanningPass({given}) of lowtide.executorch."
    given = "".join(f" --{flag.replace('_', '-')}" for flag in flags)
    return f"Plan it with lowtide plan{given}."


def part_sentence(part: SplitStep) -> str:
    """One segment that runs in parts."""
    halo = "overlaps kept from part to part" if part.keeps else "overlaps computed again"
    work = f", {part.macs:,} multiply-adds more" if part.macs else ""
    steps = f"{part.first} to {part.last}: {many(part.nodes, 'step')}"
    said = f"{steps} in {part.parts} parts along axis {part.axis}"
    return f"{said}, {halo if part.keeps or part.macs else 'nothing computed twice'}{work}"


def proof_sentence(proof: Proof) -> str:
    """How far the fitted program is from the original."""
    where = f"On {RUNTIMES[proof.runtime]}, with {proof.inputs} inputs,"
    far = (
        "every output bit is the original's"
        if proof.equal
        else f"outputs differ by at most {proof.largest:.3g}"
    )
    ending = ".pte" if proof.runtime == "executorch" else ".pt2"
    file = f"the {ending} goes from {proof.file_before:,} to {proof.file_after:,} bytes"
    return f"{where} {far}; {file}. {proof.remark}".rstrip()


def trade(found: Fitted) -> list[tuple[int, int]]:
    """Live bytes at the peak against multiply-adds, the most bytes first."""
    return sorted({(size, macs) for size, macs in found.front}, reverse=True)
