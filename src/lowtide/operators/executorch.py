"""Which of ExecuTorch's kernels may write their output exactly over an input.

Every operator listed was tried on the real runtime, with the output over the input, in many shapes, types and
memory formats (``tests/executorch/test_kernels.py``; the verdicts are in ``docs/inplace.md``), and gave
the bits that it gives elsewhere. Their kernels, portable and optimised, read an element, or a row, before
they write it, and never look at it again. An input counts if its elements lie in memory as the output's do:
one type, the same sizes (or symbols, where they are dynamic), the same order of dimensions. So nothing that
is broadcast counts, and no comparison of numbers into booleans.

Kernels that only move bytes still run where they are elided. Each was tried with source and destination in
one place, or one inside the other (``tests/executorch/test_kernels_moves.py``): it writes what it reads to
where it was. Pads are left out, since their kernel refuses tensors that overlap; and so is, but for clones,
any other order of dimensions than the usual, since ``cat`` takes no notice of it.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ELEMENTWISE = _words(
    """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil clamp cos cosh div elu eq erf exp expm1 floor floor_divide fmod ge
    gelu gt hardtanh isinf isnan le leaky_relu log log10 log1p log2 logical_and logical_not logical_or
    logical_xor logit lt masked_fill maximum minimum mul ne neg pow reciprocal relu remainder round rsqrt rsub
    sigmoid sign sin sinh sqrt sub tan tanh trunc where _clone_dim_order
    """
)
"""Each element of the result depends on the same element of every argument: it may lie over any of them."""

FIRST = _words(
    """
    _softmax _log_softmax native_layer_norm native_group_norm _native_batch_norm_legit_no_training
    _native_batch_norm_legit cumsum index_put scatter scatter_add select_scatter slice_scatter masked_scatter
    """
)
"""These read whole rows, or change some elements: the first result may lie over the first argument, and over
no other."""

TRIED = _words(
    """
    cat stack split_copy split_with_sizes_copy unbind_copy slice_copy narrow_copy select_copy view_copy
    permute_copy transpose_copy t_copy expand_copy unsqueeze_copy squeeze_copy diagonal_copy alias_copy
    detach_copy _clone_dim_order
    """
)
"""Kernels that were run with source and destination in one place, or one inside the other."""

WHOLE = frozenset({"_clone_dim_order", "alias_copy", "detach_copy"})
"""Of these, those that copy all that they are given; known without looking at sizes."""

ANY_ORDER = frozenset({"_clone_dim_order"})
"""Of these, those that take notice of the order of dimensions."""

_ROW_BLOCK = 4
_VECTORS = (4, 8, 16)
"""The optimised products of ExecuTorch's wheel compute so many rows together, and columns by vectors of so
many numbers, as the processor has them. What is left over at the end of either is rounded otherwise."""


def same_columns(start: int, stop: int, columns: int) -> bool:
    """Whether a product of a slice of columns gives the bits that the whole product has there.

    Args:
        start, stop: the slice.
        columns: of the whole.
    """
    return all(_same_blocks(start, stop, columns, vector) for vector in _VECTORS)


def same_rows(start: int, stop: int, rows: int, columns: int) -> bool:
    """Whether a product of a slice of rows gives the bits that the whole product has there.

    Args:
        start, stop: the slice.
        rows, columns: of the whole.
    """
    return columns % _VECTORS[-1] == 0 or _same_blocks(start, stop, rows, _ROW_BLOCK)


def _same_blocks(start: int, stop: int, whole: int, block: int) -> bool:
    """Whether the same elements are in full blocks, be they counted from a slice's start or the whole's."""
    return min(max(whole - whole % block, start), stop) == stop - (stop - start) % block
