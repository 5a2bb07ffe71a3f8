"""Problems and plans from the JSON that ``writing`` writes, or that a person or tool wrote.

A buffer needs an ``id``, a ``size`` and a ``lifetime``; everything else has a default. Nothing is
guessed: an unknown field, a float where a whole number is due, or a plan whose totals contradict
its offsets is refused with the way to it (``buffers[3].size``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.constants import (
    DEFAULT_ARENA,
    LIMIT,
    PLAN_FORMAT,
    PROBLEM_FORMAT,
    ROOT,
    VERSION,
)
from lowtide.base.errors import InputError
from lowtide.base.files import read_text, show_path
from lowtide.formats.fields import (
    Fields,
    as_integer,
    as_items,
    as_pair,
    as_string,
    parse,
    refuse,
)
from lowtide.formats.naming import reading
from lowtide.ir.memory_map import Bank
from lowtide.ir.plan import Applied, ArenaUse, BankUse, Plan, Progress
from lowtide.ir.problem import Arena, Buffer, Free, Placement, Problem, RegionSpan

if TYPE_CHECKING:
    from typing import Any

    from lowtide.base.files import StrPath
    from lowtide.ir.problem import Lifetime

_RULES = {"format", "version", "arenas", "may_coincide", "placements", "regions", "frees", "buffers"}
_PROBLEM = frozenset(_RULES)
_TOTALS = ("arena_bytes", "live_peak_bytes", "lower_bound_bytes")
_MAKING = {"optimal", "packer", "hierarchy", "seconds", "arena_uses", "history", "applied", "extra"}
_BANKED = {"banks", "cost", "cost_bound"}
_PLAN = frozenset({*_RULES, *_TOTALS, *_MAKING, *_BANKED})
_BANK_COUNTS = ("bytes", "alignment", "read_bytes", "written_bytes", "accessed_bytes")
_BANK = frozenset({"name", "mem_id", "capacity", "read_cost", "write_cost", *_BANK_COUNTS})
_ARENA = frozenset({"id", "capacity", "reserved"})
_USE = _ARENA | {"bytes", "live_peak_bytes", "lower_bound_bytes"}
_PROGRESS = frozenset({"seconds", "arena_bytes", "lower_bound_bytes"})
_APPLIED = frozenset({"step", "technique", "written", "read"})
_PLACEMENT = frozenset({"inner", "outer", "distance"})
_REGION = frozenset({"name", "kind", "span", "parent"})
_FREE = frozenset({"buffer", "region", "after"})
_DESCRIPTION = {
    "name",
    "kind",
    "region",
    "dtype",
    "shape",
    "operator",
    "source",
    "members",
    "reads",
    "writes",
}
_BUFFER = frozenset({"id", "size", "alignment", "offset", "arena", "lifetime", *_DESCRIPTION})
_PLACED = _BUFFER | {"pin", "object_id", "bank"}


def problem_from_json(text: str, name: str = "<json>") -> Problem:
    """The problem in JSON text; ``name`` stands for it in messages.

    Raises:
        InputError: it is not a problem of a known version; the message says where and what to do.
    """
    with reading(name):
        return _problem(_document(parse(text), PROBLEM_FORMAT))


def plan_from_json(text: str, name: str = "<json>") -> Plan:
    """The plan in JSON text; ``name`` stands for it in messages.

    Its totals must follow from its offsets, but whether the offsets are right is for
    :func:`lowtide.verify` to say.

    Raises:
        InputError: it is not a plan of a known version; the message says where and what to do.
    """
    with reading(name):
        return _plan(_document(parse(text), PLAN_FORMAT))


def from_json(text: str, name: str = "<json>") -> Problem | Plan:
    """The problem or plan in JSON text, whichever its ``format`` field says. Raises as the others do."""
    with reading(name):
        return _either(parse(text))


def read_json(path: StrPath) -> Problem | Plan:
    """The problem or plan in a JSON file. Raises InputError as :func:`problem_from_json` does."""
    return from_json(read_text(path), show_path(path))


def read_plan(path: StrPath) -> Plan:
    """The plan in a JSON file. Raises InputError as :func:`plan_from_json` does."""
    return plan_from_json(read_text(path), show_path(path))


def _either(value: object) -> Problem | Plan:
    if isinstance(value, dict) and value.get("format") == PLAN_FORMAT:
        return _plan(_document(value, PLAN_FORMAT))
    return _problem(_document(value, PROBLEM_FORMAT))


def _document(value: object, format: str) -> Fields:
    """The outermost object, once its format and version are known to be what is due."""
    if not isinstance(value, dict):
        refuse("", "an object: a problem or plan has fields", value)
    found = value.get("format")
    if found != format:
        kinds = {PROBLEM_FORMAT: "a problem", PLAN_FORMAT: "a plan"}
        if isinstance(found, str) and found in kinds:
            raise InputError(f"is {kinds[found]}, but {kinds[format]} is needed: give the right file")
        raise InputError(f'is not {kinds[format]} of Lowtide: it should say "format": "{format}"')
    version = as_integer(value.get("version"), "version")
    if version != VERSION:
        raise InputError(
            f"version: {version} is not supported, only {VERSION}: upgrade lowtide, or write the file again"
        )
    return Fields(value, "", _PROBLEM if format == PROBLEM_FORMAT else _PLAN)


def _problem(fields: Fields) -> Problem:
    buffers = [_buffer(Fields(entry, where, _BUFFER), "offset") for entry, where in _buffer_entries(fields)]
    arenas = [_arena(Fields(entry, where, _ARENA)) for entry, where in fields.items("arenas")]
    return _with_rules(fields, buffers, arenas)


def _plan(fields: Fields) -> Plan:
    records = [Fields(entry, where, _PLACED) for entry, where in _buffer_entries(fields)]
    uses_given = [Fields(entry, where, _USE) for entry, where in fields.items("arena_uses", optional=False)]
    problem = _with_rules(
        fields, [_buffer(record, "pin") for record in records], [_arena(use) for use in uses_given]
    )
    uses = {use.id: use for use in map(_use, uses_given)}
    for i, buffer in enumerate(problem.buffers):
        if buffer.arena not in uses:
            raise InputError(
                f"buffers[{i}].arena: arena {buffer.arena} is not in arena_uses: plan the problem again"
            )
    offsets = tuple(_offset(record, buffer) for record, buffer in zip(records, problem.buffers, strict=True))
    plan = Plan(
        problem=problem,
        offsets=offsets,
        uses=tuple(uses[arena.id] for arena in problem.arenas),
        packer=fields.string("packer"),
        hierarchy=fields.string("hierarchy"),
        object_ids=_object_ids(records),
        banks=tuple(_bank(Fields(entry, where, _BANK)) for entry, where in fields.items("banks")),
        cost_bound=fields.number("cost_bound") if "cost_bound" in fields else None,
        seconds=fields.seconds("seconds"),
        history=tuple(_progress(Fields(entry, where, _PROGRESS)) for entry, where in fields.items("history")),
        applied=tuple(_applied(Fields(entry, where, _APPLIED)) for entry, where in fields.items("applied")),
        extra=_extra(fields),
    )
    _check_sizes(plan)
    _check_totals(fields, plan)
    _check_banks(fields, records, plan)
    return plan


def _buffer_entries(fields: Fields) -> list[tuple[Any, str]]:
    return fields.items("buffers", optional=False)


def _with_rules(fields: Fields, buffers: list[Buffer], arenas: list[Arena]) -> Problem:
    """A problem of these buffers and arenas, with the rules that problem and plan files share."""
    pairs = [as_pair(entry, where, as_string) for entry, where in fields.items("may_coincide")]
    placements = []
    for entry, where in fields.items("placements"):
        placement = Fields(entry, where, _PLACEMENT)
        placements.append(
            Placement(placement.string("inner"), placement.string("outer"), placement.integer("distance"))
        )
    frees = []
    for entry, where in fields.items("frees"):
        free = Fields(entry, where, _FREE)
        frees.append(Free(free.string("buffer"), free.string("region"), free.string("after")))
    return Problem(
        buffers=tuple(buffers),
        arenas=tuple(arenas),
        may_coincide=tuple(pairs),
        placements=tuple(placements),
        regions=_regions(fields),
        frees=tuple(frees),
    )


def _regions(fields: Fields) -> tuple[RegionSpan, ...]:
    regions: dict[str, RegionSpan] = {}
    for entry, where in fields.items("regions"):
        record = Fields(entry, where, _REGION)
        region = RegionSpan(
            name=record.string("name"),
            kind=record.string("kind"),
            span=_intervals(record, "span"),
            parent=record.optional_string("parent"),
        )
        if region.name in regions:
            raise InputError(f"{where}.name: there are two regions {region.name!r}: leave one")
        if region.parent is not None and region.parent not in regions:
            raise InputError(
                f"{where}.parent: region {region.parent!r} is not listed before its child: list it first"
            )
        if any(start > stop for start, stop in region.span):
            raise InputError(f"{where}.span: an interval is inverted: write it as [start, stop]")
        regions[region.name] = region
    return tuple(regions.values())


def _arena(record: Fields) -> Arena:
    return Arena(record.integer("id"), record.optional_integer("capacity"), record.integer("reserved", 0))


def _buffer(record: Fields, pin: str) -> Buffer:
    """A buffer; in a plan, ``offset`` is where the buffer is, and ``pin`` where it had to be."""
    return Buffer(
        id=record.string("id"),
        size=record.integer("size"),
        lifetime=_intervals(record, "lifetime"),
        alignment=record.integer("alignment", 1),
        arena=record.integer("arena", DEFAULT_ARENA),
        offset=record.optional_integer(pin),
        name=record.string("name", ""),
        kind=record.string("kind", "temporary"),
        region=record.string("region", ROOT),
        dtype=record.optional_string("dtype"),
        shape=_shape(record),
        operator=record.optional_string("operator"),
        source=record.optional_string("source"),
        members=tuple(as_string(entry, where) for entry, where in record.items("members")),
        reads=record.optional_integer("reads"),
        writes=record.optional_integer("writes"),
    )


def _intervals(record: Fields, key: str) -> Lifetime:
    return tuple(as_pair(entry, where, as_integer) for entry, where in record.items(key, optional=False))


def _shape(record: Fields) -> tuple[int | str, ...] | None:
    if "shape" not in record or record.required("shape") is None:
        return None
    return tuple(
        as_string(entry, where) if isinstance(entry, str) else as_integer(entry, where)
        for entry, where in as_items(record.required("shape"), record.path("shape"))
    )


def _use(record: Fields) -> ArenaUse:
    use = ArenaUse(
        id=record.integer("id"),
        bytes=record.integer("bytes"),
        live_peak_bytes=record.integer("live_peak_bytes"),
        lower_bound_bytes=record.integer("lower_bound_bytes"),
    )
    for key in ("bytes", "live_peak_bytes", "lower_bound_bytes"):
        if record.integer(key) < 0:
            raise InputError(f"{record.path(key)}: {record.integer(key)} is negative: plan the problem again")
    if use.lower_bound_bytes > use.bytes:
        raise InputError(
            f"{record.path('lower_bound_bytes')}: {use.lower_bound_bytes} is more than the arena's "
            f"{use.bytes} bytes: plan the problem again"
        )
    return use


def _bank(record: Fields) -> BankUse:
    bank = Bank(
        record.string("name"),
        max(record.integer("capacity"), 1),
        record.integer("mem_id"),
        record.integer("alignment"),
        record.number("read_cost"),
        record.number("write_cost"),
    )
    read, written = record.integer("read_bytes"), record.integer("written_bytes")
    return BankUse(bank.name, bank.mem_id, bank.alignment, bank.read_cost, bank.write_cost, read, written)


def _offset(record: Fields, buffer: Buffer) -> int:
    offset = record.integer("offset")
    if offset < 0 or offset + buffer.size >= LIMIT:
        raise InputError(f"{record.path('offset')}: {offset} is no place for {buffer.size} bytes")
    return offset


def _object_ids(records: list[Fields]) -> tuple[int | None, ...] | None:
    """Shared objects, if the file has them; then every buffer says which, be it null."""
    if not any("object_id" in record for record in records):
        return None
    for record in records:
        record.required("object_id")
    return tuple(record.optional_integer("object_id") for record in records)


def _applied(record: Fields) -> Applied:
    return Applied(
        record.string("step"), record.string("technique"), record.string("written"), record.string("read")
    )


def _extra(fields: Fields) -> dict[str, Any]:
    """What namespaces that are not known here have added, as it is; the plan refuses what has no version."""
    extra = fields.required("extra") if "extra" in fields else {}
    if not isinstance(extra, dict):
        refuse("extra", "an object with an entry for each namespace", extra)
    return extra


def _progress(record: Fields) -> Progress:
    return Progress(
        record.seconds("seconds"), record.integer("arena_bytes"), record.integer("lower_bound_bytes")
    )


def _check_sizes(plan: Plan) -> None:
    """Refuse a plan whose arenas do not end where their highest buffers do."""
    reach = {arena.id: (arena.reserved, "its reserved prefix") for arena in plan.problem.arenas}
    least = {arena.id: arena.reserved for arena in plan.problem.arenas}
    for buffer, offset in zip(plan.problem.buffers, plan.offsets, strict=True):
        end = offset + buffer.size
        if buffer.size:
            least[buffer.arena] = max(least[buffer.arena], end)
        if end > reach[buffer.arena][0]:
            reach[buffer.arena] = (end, f"buffer {buffer.id!r}")
    for i, use in enumerate(plan.uses):
        highest, what = reach[use.id]
        # Whether a buffer of no bytes counts is a matter of taste, so both are right.
        if not least[use.id] <= use.bytes <= highest:
            raise InputError(
                f"arena_uses[{i}].bytes: {use.bytes} contradicts the offsets: {what} ends at {highest}: "
                "plan the problem again"
            )


def _check_totals(fields: Fields, plan: Plan) -> None:
    """Refuse a plan whose totals contradict its arenas."""
    given = fields.required("arenas")
    due = {str(id): size for id, size in plan.arenas.items()}
    if not isinstance(given, dict):
        refuse("arenas", "an object with the bytes of each arena", given)
    if {id: as_integer(size, f"arenas[{id!r}]") for id, size in given.items()} != due:
        raise InputError("arenas: contradicts arena_uses: plan the problem again")
    for key in _TOTALS:
        if fields.integer(key) != getattr(plan, key):
            raise InputError(
                f"{key}: {fields.integer(key)}, but the arenas add up to {getattr(plan, key)}: "
                "plan the problem again"
            )
    if fields.boolean("optimal") != plan.is_optimal:
        raise InputError("optimal: contradicts arena_uses: plan the problem again")


def _check_banks(fields: Fields, records: list[Fields], plan: Plan) -> None:
    """Refuse banks that contradict arenas, buffers or the cost."""
    if any(key in fields for key in _BANKED) and not all(key in fields for key in _BANKED):
        raise InputError(
            "banks, cost and cost_bound: a plan has all of them, or none: plan the problem again"
        )
    limits = {arena.id: arena.capacity for arena in plan.problem.arenas}
    for (entry, where), bank in zip(fields.items("banks"), plan.banks, strict=True):
        record = Fields(entry, where, _BANK)
        if bank.mem_id not in limits:
            raise InputError(
                f"{where}.mem_id: arena {bank.mem_id} is not in arena_uses: plan the problem again"
            )
        due = {
            "capacity": limits[bank.mem_id],
            "bytes": plan.arenas[bank.mem_id],
            "accessed_bytes": bank.accessed_bytes,
        }
        for key, value in due.items():
            if record.integer(key) != value:
                raise InputError(f"{where}.{key}: {record.integer(key)}, not {value}: plan the problem again")
    if plan.banks and fields.number("cost") != plan.cost:
        raise InputError(f"cost: {fields.number('cost')}, but the banks add up to {plan.cost}: plan it again")
    for i, record in enumerate(records):
        bank_name = record.optional_string("bank")
        if bank_name != plan.bank_of(i):
            raise InputError(f"{record.path('bank')}: {bank_name!r}, but its arena is of {plan.bank_of(i)!r}")
