"""A Program as a Source: what front ends that make Programs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lowtide.base.errors import InputError
from lowtide.frontends.front_end import Source
from lowtide.ir.contents import Contents
from lowtide.pack.techniques import Techniques, layouts_of

if TYPE_CHECKING:
    from lowtide.ir.program import Program
    from lowtide.ir.request import Request


def source_of_program(
    program: Program, request: Request, *, origin: Any = None, blobs: tuple[int, ...] = ()
) -> Source:
    """The Source of a program under the techniques that a request allows.

    Args:
        program: what runs.
        request: what was asked for.
        origin: the front end's own object.
        blobs: bytes of each delegate's blob, as far as they are told.

    Raises:
        UnsupportedError: its calls unfold into more program points than can be planned, or a region calls
            itself.
    """
    layouts = layouts_of(program)
    problem, _ = layouts(Techniques(request.in_place, request.elide_copies))
    contents = Contents(
        constant_bytes=sum(s.size or 0 for s in program.storages if s.kind == "constant"),
        delegates=sum(region.kind == "delegate" for region in program.regions),
        delegate_bytes=blobs,
    )
    return Source(problem, program, layouts=layouts, contents=contents, origin=origin)


def fixed(value: object) -> InputError:
    """The error of whoever wants to change a program that cannot change any more."""
    return InputError(
        f"a {type(value).__name__} is fixed: fold and reorder the exported program that it is of, "
        "or call lowtide.transforms.reorder.reorder"
    )
