"""Copies of programs are the same programs."""

from __future__ import annotations

import torch
from torch import nn

from lowtide.transforms import transform
from lowtide.transforms.copying import copy_program


def test_names_that_torch_gives_no_node_stay():
    """nn.Sequential calls its input ``input``: a builtin, which torch would rename to ``input_1``."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    inputs = (torch.randn(2, 4),)
    exported = torch.export.export(model, inputs)
    copy = copy_program(exported)
    assert [node.name for node in copy.graph.nodes] == [node.name for node in exported.graph.nodes]
    changed = transform(exported, fold_constants=True, reorder=True).program
    assert changed.graph_signature.user_inputs == ("input",)
    assert torch.equal(changed.module()(*inputs), exported.module()(*inputs))
