"""The rules by name, in the order in which they are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.base.errors import InputError
from lowtide.transforms.rewrites import borders, equal, fills, means, pads, pools, products
from lowtide.transforms.rewrites.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERY: tuple[Rule, ...] = (
    Rule(
        "absorb-pads",
        "A convolution or pooling pads by itself what an explicit pad before it padded.",
        pads.absorb_pads,
    ),
    Rule(
        "shrink-fills",
        "A tensor of one number that is only broadcast becomes one element.",
        fills.shrink_fills,
    ),
    Rule(
        "merge-equal",
        "Equal computations of constants are done once.",
        equal.merge_equal,
    ),
    Rule(
        "linear",
        "A product by a transposed weight becomes linear, which takes the weight as it lies.",
        products.linear_of_product,
        needs=frozenset({"linear"}),
    ),
    Rule(
        "swap-biased-product",
        "A product with a bias by a transposed weight transposes its other operand instead.",
        products.swap_with_bias,
        adds_steps=True,
    ),
    Rule(
        "product-in-columns",
        "A product by a transposed weight takes a few rows of the weight at a time.",
        products.product_in_columns,
        adds_steps=True,
    ),
    Rule(
        "cut-borders",
        "A convolution computes apart what a pad behind its map is read by.",
        borders.cut_borders,
        adds_steps=True,
    ),
    Rule(
        "pool-in-parts",
        "A pooling whose indices nobody reads runs in parts, whose indices are few.",
        pools.pool_in_parts,
        adds_steps=True,
    ),
    Rule(
        "biased-linear",
        "A product with a bias by a transposed weight becomes linear.",
        products.linear_with_bias,
        keeps_bits=False,
        needs=frozenset({"linear"}),
        difference="2e-6 of the largest output",
    ),
    Rule(
        "swap-product",
        "A product by a transposed weight transposes its other operand instead.",
        products.swap_operands,
        keeps_bits=False,
        adds_steps=True,
        difference="1e-6 of the largest output",
    ),
    Rule(
        "mean-in-parts",
        "A mean over whole maps becomes a mean of the means of parts.",
        means.mean_in_parts,
        keeps_bits=False,
        adds_steps=True,
        difference="1e-6 of the largest output",
    ),
)

NAMES = tuple(rule.name for rule in EVERY)


def chosen_rules(
    names: Iterable[str] | None, *, allow_rounding: bool, kernels: Iterable[str]
) -> tuple[Rule, ...]:
    """The rules that may be used, in order.

    Args:
        names: of rules; None for all.
        allow_rounding: whether rules are among them that may round differently.
        kernels: names of operators that the kernel library has beyond ExecuTorch's portable ones.

    Raises:
        InputError: no rule has such a name, or one that was asked for by name is not allowed.
    """
    given = None if names is None else list(dict.fromkeys(names))
    unknown = [] if given is None else [name for name in given if name not in NAMES]
    if unknown:
        raise InputError(f"rule {unknown[0]!r}: no rewrite has this name: choose among {', '.join(NAMES)}")
    has = frozenset(kernels)
    found = []
    for rule in EVERY:
        if given is not None and rule.name not in given:
            continue
        lacking = sorted(rule.needs - has)
        if given is not None and not rule.keeps_bits and not allow_rounding:
            raise InputError(f"rule {rule.name!r} may round differently: allow rounding to use it")
        if given is not None and lacking:
            raise InputError(
                f"rule {rule.name!r} needs a kernel for {lacking[0]}, which the portable ones lack: "
                f"name it among the kernels if the device has it"
            )
        if not lacking and (rule.keeps_bits or allow_rounding):
            found.append(rule)
    return tuple(found)
