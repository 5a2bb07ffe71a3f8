"""Findings in words: the plain sentences that the terminal and Markdown share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.files import show_name
from lowtide.base.units import amount, both, many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.ir.device_memory import DeviceMemory, Pool, RamPart, Saving
    from lowtide.report.budget import Budget
    from lowtide.report.findings import Advice, Alive, Explanation, Moment, MoreRoom, Peak

POOLS: dict[Pool, str] = {
    "arena": "arenas",
    "caller": "the caller's",
    "method": "method allocator",
    "temporary": "temporary memory",
    "heap": "heap",
    "file": "file",
}
"""What each pool is called."""

_ALWAYS: set[Pool] = {"method", "temporary", "file"}
"""Pools that a sentence names even if nothing is taken from them."""

NAMES = 3
"""Names that a sentence spells out."""


def share(part: int, whole: int) -> str:
    """A part of a whole to a tenth of a per cent: ``51.0%``."""
    return "-" if whole == 0 else f"{100 * part / whole:.1f}%"


def listed(names: Sequence[str], most: int = NAMES) -> str:
    """The first few names: ``a, b, c and 4 more``."""
    if len(names) <= most:
        return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
    return f"{', '.join(names[:most])} and {len(names) - most:,} more"


def where(moment: Moment) -> str:
    """What happens at a tick, and which line of the model asks for it."""
    return f"{moment.step}, {moment.source}" if moment.source else moment.step


def waiting(alive: Alive, tick: int) -> str:
    """How long a buffer has been there, and how long it still waits to be read."""
    if alive.idle is None:
        start, stop = next((i for i in alive.lifetime if i[0] <= tick < i[1]), alive.lifetime[0])
        since = f"alive for {many(tick - start, 'tick')}" if tick > start else "begins here"
        return f"{since}, ends in {stop - tick:,}"
    said = []
    if alive.written is not None:
        said.append("written here" if not alive.written.away else f"written {alive.written.away:,} ago")
    if alive.read is not None:
        said.append("read here" if not alive.read.away else f"read in {alive.read.away:,}")
    return ("idle, " if alive.idle else "") + ", ".join(said)


def cost_text(cost: float) -> str:
    """What accesses cost, in the unit of the memory map: ``857,306,912``."""
    return f"{cost:,.10g}"


def arena_sentence(found: Explanation) -> str:
    """How much memory the plan takes, and whether a better one could take less."""
    if found.arena_bytes is None or found.lower_bound_bytes is None:
        return "No plan was found that keeps the capacity."
    taken = f"The plan takes {amount(found.arena_bytes)}"
    if found.banks:
        cost = sum(bank.cost for bank in found.banks)
        return f"{taken} in {many(len(found.banks), 'bank')}, whose accesses cost {cost_text(cost)} a run."
    if found.arena_bytes == found.lower_bound_bytes:
        return f"{taken}: no plan takes less."
    return f"{taken}; no plan takes less than {amount(found.lower_bound_bytes)}."


def room_sentence(room: MoreRoom) -> str:
    """What a larger bank would win."""
    moved = f"{listed(room.buffers)} would move up to it" if room.buffers else "others would move to it"
    more = f"With {amount(room.more_bytes)} more in {room.bank}"
    return f"{more}, a run would cost {cost_text(room.saves)} less: {moved}."


def ram_sentence(memory: DeviceMemory) -> str:
    """What everything takes on a device."""
    least = "at least " if memory.untold else ""
    return f"On {memory.device}, as {memory.runtime} allocates: {least}{amount(memory.ram_bytes)} of RAM"


def beside_sentence(memory: DeviceMemory) -> str:
    """What a device's RAM holds beside the arenas."""
    rest = memory.ram_bytes - memory.pool_bytes("arena")
    told = {part.pool for part in memory.parts if part.in_ram and part.bytes is not None} | _ALWAYS
    pools = [f"{POOLS[pool]} {amount(memory.pool_bytes(pool))}" for pool in POOLS if pool in told - {"arena"}]
    untold = f"; {listed(memory.untold)}: not told" if memory.untold else ""
    return (
        f"Beside the arenas, {memory.device} needs {amount(rest)} of RAM as {memory.runtime} allocates: "
        f"{', '.join(pools)}{untold}"
    )


def ram_row(memory: DeviceMemory, part: RamPart) -> list[str]:
    """One kind of memory: pool, name, bytes, share of all RAM, how many there are and what that means."""
    size = "not told" if part.bytes is None else both(part.bytes)
    of_all = share(part.bytes or 0, memory.ram_bytes) if part.in_ram else "not in RAM"
    counted = many(part.count, "allocation") if part.pool == "method" else ""
    whose = f"of method {show_name(part.method)}" if part.method else ""
    return [POOLS[part.pool], part.what, size, of_all, ", ".join(filter(None, [counted, whose, part.remark]))]


def saving_sentence(saving: Saving) -> str:
    """A change that takes less RAM, and what it wins."""
    return f"-{both(saving.wins)}{'' if saving.exact else ' or more'}: {saving.change}"


def advice_sentence(advice: Advice) -> str:
    """What to change, without what it wins."""
    subject = listed(advice.subject)
    if advice.kind == "packing":
        return f"Pack {subject} more tightly: the plan is above its lower bound"
    if advice.kind in ("inputs", "outputs"):
        return f"Keep {advice.kind} where the caller has them, not in the arena: {subject}"
    if advice.kind == "constants":
        cost = f", for {amount(advice.costs)} of constants" if advice.costs else ""
        return f"Compute ahead of time what depends on constants alone{cost}: {subject}"
    if advice.kind == "copy":
        return f"Read what {subject} copies instead of the copy"
    if advice.kind == "copies":
        return f"Do without all {many(len(advice.subject), 'copy')} whose results could be views: {subject}"
    if advice.kind == "in_place":
        return f"Plan with --in-place: kernels that may write over an input that dies do so at {subject}"
    if advice.kind == "elide_copies":
        return f"Plan with --elide-copies: what is copied lies where the copy is at {subject}"
    if advice.kind == "split":
        price = f"for {advice.macs:,} multiply-adds more ({advice.work:.3f} times)" if advice.macs > 0 else ""
        return f"Run chains in parts, as lowtide fit does{f', {price}' if price else ''}: {subject}"
    if advice.kind == "delay":
        return f"Run {subject} later, just before {advice.until}"
    return f"Do not keep {subject} while it waits for {advice.until}: compute it again, or keep it elsewhere"


def peak_sentences(peak: Peak) -> list[str]:
    """What there is to say of a peak beside its step and its buffers."""
    said = []
    if peak.next is not None:
        said.append(
            f"The next-highest step, {peak.next.step}, has {amount(peak.next.bytes)}: "
            f"a change to the peak alone wins at most {amount(peak.bytes - peak.next.bytes)}."
        )
    if len(peak.lasts) > 1:
        said.append(f"As much is alive at {len(peak.lasts):,} separate times: a change must lower them all.")
    if peak.arena_bytes is not None and peak.arena_bytes > peak.bytes:
        above = peak.arena_bytes - peak.bytes
        said.append(f"The plan takes {amount(peak.arena_bytes)}, {above:,} more than the live peak.")
    return said


def budget_line(name: str, budgets: Sequence[Budget]) -> str:
    """One line: whether the plan keeps its budget, and by how much it does or does not."""
    kept = all(budget.is_kept for budget in budgets)
    said = []
    for budget in sorted(budgets, key=lambda budget: budget.is_kept):
        what = "all arenas together take" if budget.arena is None else f"arena {budget.arena} takes"
        if budget.what == "ram":
            what = "everything in RAM takes"
        takes = f"{what} {amount(budget.bytes)} of {both(budget.limit)}"
        if budget.is_kept:
            untold = f", without {listed(budget.untold)}, which is not told" if budget.untold else ""
            said.append(f"{takes}, {amount(-budget.over)} to spare{untold}")
        elif budget.lower_bound_bytes > budget.limit:
            bound = amount(budget.lower_bound_bytes)
            said.append(f"{takes}, {amount(budget.over)} too many; no plan takes less than {bound}")
        else:
            rest = "a plan that fits was neither found nor ruled out"
            said.append(f"{takes}, {amount(budget.over)} too many; {rest}")
    return f"{name}: {'within budget' if kept else 'over budget'}: {'; '.join(said)}"
