"""The public API: what plan and verify take, and that importing costs nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lowtide
from lowtide import Buffer, InputError, Plan, Problem, VerificationError

PROBLEM = Problem((Buffer("a", 8, ((0, 4),)), Buffer("b", 4, ((5, 6),))))


def test_importing_lowtide_imports_nothing_heavy() -> None:
    code = (
        "import sys, lowtide as lt; lt.plan(lt.Problem((lt.Buffer('a', 8, ((0, 1),)),)));"
        "heavy = {'numpy', 'torch', 'typer', 'rich', 'click', 'executorch', 'pydantic'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists() -> None:
    for name in lowtide.__all__:
        assert getattr(lowtide, name) is not None
    assert set(lowtide.__all__) <= set(dir(lowtide))
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        lowtide.plans  # noqa: B018


def test_plan_takes_a_problem_a_plan_and_a_path(tmp_path: Path) -> None:
    plan = lowtide.plan(PROBLEM)
    assert isinstance(plan, Plan)
    assert plan.arena_bytes == plan.lower_bound_bytes == 8
    assert plan.is_optimal
    assert plan.offset_of("b") == 0
    assert plan.verify() == 1
    assert lowtide.plan(plan) == plan
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    assert lowtide.plan(path).arena_bytes == 8
    assert lowtide.plan(str(path)).offsets == plan.offsets
    assert lowtide.verify(plan, path).reuse_pairs == 1


def test_offset_of_an_unknown_name() -> None:
    with pytest.raises(lowtide.LowtideError, match="the plan has no buffer 'c'"):
        lowtide.plan(PROBLEM).offset_of("c")


def test_capacity() -> None:
    assert lowtide.plan(PROBLEM, capacity=8).arena_bytes == 8
    assert lowtide.plan(PROBLEM, capacity={1: 8}).problem.arena(1).capacity == 8
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.plan(PROBLEM, capacity=7)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InputError, match="a int cannot be planned"):
        lowtide.plan(3)
    with pytest.raises(TypeError, match="unexpected option 'algnment'"):
        lowtide.plan(PROBLEM, algnment=16)


def test_verify_raises_with_every_violation() -> None:
    from dataclasses import replace

    problem = replace(
        PROBLEM, buffers=(*PROBLEM.buffers, Buffer("c", 4, ((0, 9),)), Buffer("d", 4, ((0, 9),)))
    )
    wrong = replace(lowtide.plan(problem), offsets=(0, 0, 0, 0))
    with pytest.raises(VerificationError, match="and 5 more") as caught:
        wrong.verify()
    kinds = [violation.kind for violation in caught.value.violations]
    assert sorted(kinds) == ["overlap"] * 5 + ["totals"]


def test_the_kernel_stub_names_what_the_kernel_has() -> None:
    import ast

    from lowtide import _kernel

    stub = Path(lowtide.__file__).with_name("_kernel.pyi").read_text()
    told = {node.name for node in ast.parse(stub).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    told |= {
        node.target.id
        for node in ast.parse(stub).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    real = {name for name in dir(_kernel) if not name.startswith("_")}
    assert told == real
