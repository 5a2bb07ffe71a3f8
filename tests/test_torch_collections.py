"""ExportDB and ``hop_db``: every program that PyTorch keeps for its own tests, planned, verified and run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import fx  # noqa: E402

from lowtide.errors import LowtideError, UnsupportedError  # noqa: E402
from lowtide.frontends.torch_export import calls  # noqa: E402
from torch_collections import Case, export_db, higher_order, hold  # noqa: E402

EXAMPLES = {case.name: case for case in export_db()}
SAMPLES = {case.name: case for case in higher_order()}

EXEMPT = {
    "dynamic_shape_round": "UserError: Constraints violated",
}
"""What is not planned, and how it begins to say so: a list that may only get shorter.

``dynamic_shape_round`` is marked as not supported by ExportDB itself.
"""

EXEMPT_OPERATORS = {
    "inline_asm_elementwise": "ProgramError: root/inline_asm_elementwise: the program itself raises here",
    "invoke_quant": "SpecViolationError: Node.meta invoke_quant is missing val field",
    "local_map_hop": "Unsupported: Unexpected type in sourceless builder",
    "while_loop_stack_output": "UnsupportedError: node 'while_loop_stack_output': operator "
    "'while_loop_stack_output' cannot be planned: it saves every iteration for the backward pass",
}
"""The same for every sample of an operator.

``inline_asm_elementwise`` runs on CUDA alone; torch.export cannot export ``invoke_quant`` and
``local_map_hop``; the last is made by and for the backward pass.
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


def check(case: Case, exempt: str | None) -> None:
    """Hold a case to all, or to the one line that it is exempt with."""
    if exempt is None:
        hold(case)
        return
    kind, message = exempt.split(": ", 1)
    with pytest.raises(Exception) as caught:  # noqa: PT011  # what it is, is looked at below
        hold(case)
    assert type(caught.value).__name__ == kind
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) or not isinstance(caught.value, LowtideError)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_export_db(name: str) -> None:
    check(EXAMPLES[name], EXEMPT.get(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_higher_order_operators(name: str) -> None:
    check(SAMPLES[name], EXEMPT_OPERATORS.get(name.split("-")[0]))


@pytest.mark.parametrize("name", FAST)
def test_a_few_of_them(name: str) -> None:
    check({**EXAMPLES, **SAMPLES}[name], None)


def test_exemptions_are_of_what_there_is() -> None:
    assert EXEMPT.keys() <= EXAMPLES.keys()
    assert EXEMPT_OPERATORS.keys() <= {name.split("-")[0] for name in SAMPLES}


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
