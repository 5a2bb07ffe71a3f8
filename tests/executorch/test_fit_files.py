"""A fitted export, lowered as any other: the arena that was told, and the bits of the original."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.pass_manager import ExportedProgramPassManager
from torch import nn

import lowtide
from fit_models import mobilenet_v2, transformer
from lowtide.executorch import Fit, MemoryPlanningPass
from runtime import lower, run_file


def chain():
    """Two large maps between small ones."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, 2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 4, 3, 2, padding=1),
    )
    return model.eval(), (torch.randn(1, 3, 32, 32),)


class Sums(nn.Module):
    """What XNNPACK leaves to the portable kernels."""

    def forward(self, x):
        return torch.cumsum(x, 1)


def lowered(program, reorder: bool):
    planning = MemoryPlanningPass(in_place=True, elide_copies=True, reorder=reorder)
    return lower(to_edge(program), planning)


def fit_and_lower(model, inputs, **options):
    """The fit, and the real arena of the stored and loaded program with reorder off and on."""
    exported = torch.export.export(model, inputs)
    found = lowtide.fit(exported, runtime="executorch", **options)
    file = io.BytesIO()
    torch.export.save(found.program, file)
    program = torch.export.load(file)
    whole = lowered(exported, True).run([inputs])[0]
    arenas = []
    for reorder in (False, True):
        parts = lowered(program, reorder)
        arenas.append(parts.arena_bytes())
        for one, other in zip(whole, parts.run([inputs])[0], strict=True):
            assert torch.equal(one.view(torch.int32), other.view(torch.int32))
    return found, arenas


def test_a_lowered_fit_takes_the_arena_that_was_told():
    found, (plain, moved) = fit_and_lower(*chain())
    assert found.changed
    assert found.arena_bytes <= 0.5 * found.arena_before
    assert plain == found.arena_bytes
    assert moved == found.arena_bytes
    assert found.proof.equal
    assert found.proof.runtime == "executorch"


@pytest.mark.slow
def test_a_transformer_is_fitted_by_its_queries():
    torch.manual_seed(0)
    found, (plain, moved) = fit_and_lower(*transformer(64, 48, 2))
    assert found.macs == found.macs_before
    assert plain <= found.arena_bytes
    assert moved <= found.arena_bytes


@pytest.mark.slow
def test_a_mobile_net_fits_into_256_kib():
    torch.manual_seed(0)
    found, (plain, moved) = fit_and_lower(*mobilenet_v2(96, 1000), max_arena=256 * 1024)
    assert found.fits
    assert plain <= 256 * 1024
    assert moved <= 256 * 1024
    assert found.proof.file_after <= 1.03 * found.proof.file_before


def test_planning_a_fitted_program_without_in_place_is_noted():
    model, inputs = chain()
    found = lowtide.fit(torch.export.export(model, inputs), runtime="executorch", prove=False)
    notes = []
    for in_place in (False, True):
        planning = MemoryPlanningPass(in_place=in_place, elide_copies=True)
        lower(to_edge(found.program), planning)
        notes.append([note for note in planning.notes if "runs in parts" in note])
    assert [len(found) for found in notes] == [1, 0]


def test_delegates_stay_as_they_were():
    model, inputs = chain()
    exported = torch.export.export(nn.Sequential(model, Sums()).eval(), inputs)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    fit = Fit()
    fitted = copy.deepcopy(edge).transform(ExportedProgramPassManager([fit]))
    outcomes = []
    for one in (edge, fitted):
        lowered = lower(one, MemoryPlanningPass(in_place=True, elide_copies=True, reorder=True))
        (plan,) = lowered.manager.executorch_program.execution_plan
        blobs = [delegate.id for delegate in plan.delegates]
        outcomes.append((blobs, lowered.run([inputs])[0], lowered.arena_bytes()))
    (before, whole, first), (after, parts, second) = outcomes
    assert before == after
    assert before
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
    assert second <= first
    assert any(
        "executorch_call_delegate" in barrier or "lowered" in barrier for barrier in fit.fitted[0].barriers
    )


def test_the_stamp_does_not_reach_the_device():
    model, inputs = chain()
    found = lowtide.fit(torch.export.export(model, inputs), runtime="executorch", prove=False)
    data = lowered(found.program, False).buffer
    assert b"lowtide" not in data
    assert run_file(data, [inputs])[0][0].shape == (1, 4, 8, 8)
