"""ExportDB and ``hop_db``: every program that PyTorch keeps for its own tests, planned, verified and run."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from lowtide.base.errors import LowtideError, UnsupportedError  # noqa: E402
from lowtide.frontends.torch_export import calls  # noqa: E402
from torch_collections import Case, export_db, higher_order, hold  # noqa: E402

EXAMPLES = {case.name: case for case in export_db()}
SAMPLES = {case.name: case for case in higher_order()}

EXEMPT = {
    # ExportDB itself marks it as not supported.
    "dynamic_shape_round": "UserError: Constraints violated",
    # PyTorch multiplies no matrices of booleans on a CPU, and adds no 5 to them in place.
    "scan-simple-bool": "ProgramError: \"addmm_impl_cpu_\" not implemented for 'Bool'",
    "auto_functionalize-simple-bool": "ProgramError: can't be cast to the desired output type Bool",
    # Its sample wants gradients, of whole numbers too.
    "register_hook-simple-[biu]*": "ValueError: is not supported for boolean and integral dtypes",
    # The body takes a cosine, which is no whole number: torch.export refuses to carry it on.
    "while_loop*-simple-[biu]*": "UncapturedHigherOrderOpError: to have same metadata",
    # It is made by and for the backward pass.
    "while_loop_stack_output-simple-f*": "UnsupportedError: 'while_loop_stack_output' cannot be planned",
    # torch.export cannot export them.
    "invoke_quant-*": "SpecViolationError: Node.meta invoke_quant is missing val field",
    "local_map_hop-*": "Unsupported: Unexpected type in sourceless builder",
    # It runs on CUDA alone.
    "inline_asm_elementwise-*": "ProgramError: inline_asm_elementwise only supports CUDA tensors",
}
"""What is not planned, by patterns of names: the exception, and part of what it says.

The list may only get shorter: a case that needs its exemption no longer fails.
"""

FAST = (
    *("cond_operands", "dynamic_shape_map", "model_attr_mutation", "user_input_mutation"),
    *(
        "scan-simple-float32",
        "map-nested-int64",
        "while_loop-simple-float32",
        "auto_functionalize-simple-float32",
    ),
)


def check(case: Case) -> None:
    """Hold a case to all, or to the one line that it is exempt with."""
    exempt = [reason for pattern, reason in EXEMPT.items() if fnmatchcase(case.name, pattern)]
    if not exempt:
        hold(case)
        return
    kind, message = exempt[0].split(": ", 1)
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        hold(case)
    assert type(caught.value).__name__ == kind
    assert "\n" not in str(caught.value) or not isinstance(caught.value, LowtideError)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_export_db(name: str) -> None:
    check(EXAMPLES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_higher_order_operators(name: str) -> None:
    check(SAMPLES[name])


@pytest.mark.parametrize("name", FAST)
def test_a_few_of_them(name: str) -> None:
    hold({**EXAMPLES, **SAMPLES}[name])


def test_every_exemption_is_of_something() -> None:
    for pattern in EXEMPT:
        assert any(fnmatchcase(name, pattern) for name in (*EXAMPLES, *SAMPLES)), pattern
    assert not any(fnmatchcase(name, pattern) for name in FAST for pattern in EXEMPT)


def test_every_operator_that_runs_graphs_is_known_or_refused_by_name() -> None:
    names = sorted(torch._ops._higher_order_ops)
    assert len(names) > 30
    for name in names:
        graph = fx.Graph()
        node = graph.call_function(torch._ops._higher_order_ops[name])
        if name in calls.OPAQUE | calls.DELEGATES:
            assert calls.signature(node) is None
        elif name not in calls._CALLS:
            with pytest.raises(UnsupportedError, match=f"operator {name!r}") as caught:
                calls.signature(node)
            assert "\n" not in str(caught.value)
