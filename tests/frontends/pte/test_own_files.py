"""What Lowtide lowers, Lowtide reads: live tensors that coincide by permission are no fault anywhere."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from executorch.exir.passes import MemoryPlanningPass as StockPass
from torch import nn
from typer.testing import CliRunner

from lowtide import plan
from lowtide.cli.app import app
from lowtide.executorch import MemoryPlanningPass, audit, repack
from lowtide.frontends.pte import open_pte
from lowtide.frontends.pte.sources import load_methods
from lowtide.frontends.pte.writing import rewrite
from lowtide.verifier.checks import find_violations, verify
from runtime import edge_of, lower
from zoo import ZOO


class Chain(nn.Module):
    """Results may lie over what they were made of; parts of a join, and what is split off, in the whole."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.sigmoid(torch.tanh(x * 2) + 1)
        whole = torch.cat([a.exp(), x.neg()])
        first, second = whole.clone().split(8)
        return first.sin() + second, whole.abs()


def lowered(name: str, **techniques: bool) -> bytes:
    torch.manual_seed(0)
    model, call = (Chain(), (torch.randn(8, 64),))
    if name in ZOO:
        model, (call, *_) = ZOO[name]()
    found: bytes = lower(edge_of(model, call), MemoryPlanningPass(timeout=0.5, **techniques)).buffer
    return found


def check_file(data: bytes) -> int:
    """Read a file in every way; how many of its methods let live tensors coincide."""
    assert audit(data).findings == ()
    coinciding = 0
    for method in load_methods(open_pte(data), 16):
        violations, _ = find_violations(method.plan, method.follow)
        assert violations == []
        coinciding += method.plan.problem.has_permissions
        sizes = open_pte(data).program.execution_plan[0].non_const_buffer_sizes
        assert method.plan.arena_bytes <= sum(sizes)
        assert all(use.lower_bound_bytes <= use.bytes for use in method.plan.uses)
        verify(plan(method.problem, timeout=0.3), method.follow)
    for in_place, elide_copies in ((False, False), (True, True)):
        done = repack(data, timeout=0.3, in_place=in_place, elide_copies=elide_copies)
        assert done.after.safe
        assert all(arena.after <= arena.before for arena in done.arenas)
    return coinciding


ALL = dict.fromkeys(("in_place", "elide_copies", "reorder"), True)


@pytest.mark.parametrize("name", ["chain", "two_conds_added", "scan_then_cond"])
def test_every_command_takes_a_file_of_ours(name, tmp_path):
    data = lowered(name, **ALL)
    path = tmp_path / "own.pte"
    path.write_bytes(data)
    other = tmp_path / "other"
    size = sum(open_pte(data).program.execution_plan[0].non_const_buffer_sizes)
    for command in (
        f"check {path} --max-arena {size}",
        f"audit {path}",
        f"explain {path}",
        f"plan {path}",
        f"diff {path} {path}",
        f"compare {path} --timeout 0.3",
        f"show {path} --html {other}.html",
        f"repack {path} -o {other}.pte --in-place --elide-copies",
    ):
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code == 0, (command, done.output)
        assert "wrong" not in done.output


def test_own_plan_permits_what_the_file_does():
    (method,) = load_methods(open_pte(lowered("chain", **ALL)), 16)
    assert method.plan.problem.may_coincide
    assert method.plan.problem.placements
    (plain,) = load_methods(open_pte(lowered("chain")), 16)
    assert not plain.plan.problem.has_permissions


def test_what_is_lost_is_permitted_nothing():
    file = open_pte(lower(edge_of(Chain(), (torch.randn(8, 64),)), StockPass()).buffer)
    (right,) = load_methods(file, 16)
    names = [buffer.id for buffer in right.plan.problem.buffers if buffer.size == 2048]
    values = [int(name.rpartition("%")[2]) for name in names]
    wrong = rewrite(file, {"forward": dict.fromkeys(values, (1, 0))}, {})
    (method,) = load_methods(wrong, 16)
    violations, _ = find_violations(method.plan, method.follow)
    assert {"overlap", "lost"} <= {violation.kind for violation in violations}


@pytest.mark.parametrize("techniques", [{"in_place": True}, ALL])
def test_chain_is_read_in_every_way(techniques):
    assert check_file(lowered("chain", **techniques)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_zoo_is_read_in_every_way(name):
    for choice in product((False, True), repeat=3):
        check_file(lowered(name, **dict(zip(ALL, choice, strict=True))))
