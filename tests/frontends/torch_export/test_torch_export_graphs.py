"""The torch.export front end: graph modules, delegates, files, real models."""

from __future__ import annotations

import operator
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.fx.passes.fake_tensor_prop import FakeTensorProp  # noqa: E402

from exports import FOUR, Lambda, imported, names, region, step, storage  # noqa: E402
from lowtide.base.errors import InputError, UnsupportedError  # noqa: E402
from lowtide.frontends.torch_export import import_program, load  # noqa: E402
from lowtide.ir.request import Request  # noqa: E402
from models import REAL_MODELS  # noqa: E402

# Graph modules that no export made.


def _traced(module: nn.Module, *inputs: torch.Tensor) -> torch.fx.GraphModule:
    graph = torch.fx.symbolic_trace(module)
    FakeTensorProp(graph, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*inputs)
    return graph


def test_functions_methods_and_modules_are_watched_at_work() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU(inplace=True)
            self.same = nn.Identity()

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            made = torch.relu_(x + 1).view(-1)
            made.add_(1)
            return made, self.same(self.act(y)), torch.split(y, 2)[0]

    result = import_program(_traced(Model(), FOUR, FOUR.clone()))
    assert names(result, step(result, "relu_").partial) == ["root/add"]
    assert names(result, step(result, "add_").partial) == ["root/view"]
    assert names(result, step(result, "act").partial) == ["root/y"]
    assert [s.name for s in result.program.storages] == ["root/x", "root/y", "root/add"]
    assert storage(result, "root/same") == storage(result, "root/y")


def test_missing_fake_tensors_are_named() -> None:
    with pytest.raises(InputError, match=r"root/x .*no fake tensor in meta\['val'\].*torch.export.export"):
        import_program(torch.fx.symbolic_trace(Lambda(lambda x: x + 1).function))


def test_unknown_and_refused_higher_order_operators_are_named() -> None:
    class Unheard(torch._ops.HigherOrderOperator):
        def __init__(self) -> None:
            super().__init__("lowtide_unheard")

        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args)

    for unusable, message in (
        (Unheard(), r"'hop'.*'lowtide_unheard' is not known"),
        (
            torch.ops.higher_order.autograd_function_apply,
            r"'hop'.*'autograd_function_apply' cannot be planned",
        ),
    ):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        made = graph.create_node("call_function", unusable, (x,), name="hop")
        graph.output(made)
        x.meta["val"] = made.meta["val"] = torch.empty(4, device="meta")
        with pytest.raises(UnsupportedError, match=message):
            import_program(torch.fx.GraphModule({}, graph))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("wrap", lambda body, x: (body, x)),
        ("tag_activation_checkpoint", lambda body, x: (body, x)),
        ("strict_mode", lambda body, x: (body, (x,))),
        ("run_const_graph", lambda body, x: (body, (x,))),
        ("hints_wrapper", lambda body, x: (body, (x,), {}, {"hint": 1})),
        ("invoke_subgraph", lambda body, x: (body, "id", x)),
        ("wrap_with_set_grad_enabled", lambda body, x: (False, body, x)),
        ("wrap_with_autocast", lambda body, x: ("cpu", None, False, None, body, x)),
    ],
)
def test_every_wrapper_around_a_graph_is_a_call(name: str, arguments: Callable[..., Any]) -> None:
    graph = torch.fx.Graph()
    x, body = graph.placeholder("x"), graph.get_attr("body")
    made = graph.call_function(getattr(torch.ops.higher_order, name), arguments(body, x))
    taken = graph.call_function(operator.getitem, (made, 0))
    graph.output(taken)
    x.meta["val"], made.meta["val"], taken.meta["val"] = FOUR, (FOUR,), FOUR
    holder = nn.Module()
    holder.body = make_fx(lambda x: (x.sin() + 1,), tracing_mode="fake")(FOUR)
    result = import_program(torch.fx.GraphModule(holder, graph))
    (only,) = region(result, "root").steps
    assert only.operator == name
    assert only.call is not None
    assert (only.call.kind, only.call.regions) == ("call", (1,))
    assert names(result, only.call.operands) == ["root/x"]
    assert [s.operator for s in region(result, "root/body").steps] == ["aten.sin.default", "aten.add.Tensor"]
    assert names(result, region(result, "root").outputs) == names(result, only.call.results)


def test_a_graph_that_takes_other_arguments_than_it_is_passed_is_refused() -> None:
    graph = torch.fx.Graph()
    x, body = graph.placeholder("x"), graph.get_attr("body")
    made = graph.call_function(torch.ops.higher_order.invoke_subgraph, (body, "id", x, x))
    graph.output(())
    x.meta["val"], made.meta["val"] = FOUR, (FOUR,)
    holder = nn.Module()
    holder.body = make_fx(lambda x: (x.sin(),), tracing_mode="fake")(FOUR)
    with pytest.raises(UnsupportedError, match=r"'invoke_subgraph': passes 2 .*'root/body' has 1 inputs"):
        import_program(torch.fx.GraphModule(holder, graph))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (1, {}, "'child' is not given its argument 'y'"),
        (3, {}, "'child' does not take the arguments x"),
        (2, {"z": 1}, "'child' does not take the arguments z"),
    ],
)
def test_called_graph_modules_bind_arguments_as_python_does(
    args: int, kwargs: dict[str, Any], message: str
) -> None:
    child = _traced(Lambda(lambda x, y: x + y).function, FOUR, FOUR)  # type: ignore[arg-type]
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    called = graph.call_module("child", (x,) * args, kwargs)
    graph.output(called)
    x.meta["val"] = called.meta["val"] = torch.empty(4, 4, device="meta")
    with pytest.raises(UnsupportedError, match=f"node 'child': {message}"):
        import_program(torch.fx.GraphModule({"child": child}, graph))


def test_sparse_tensors_are_refused() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(x)
    x.meta["val"] = torch.eye(3).to_sparse()
    with pytest.raises(UnsupportedError, match=r"'root/x' is a torch.sparse_coo tensor"):
        import_program(torch.fx.GraphModule({}, graph))


def test_vmap_is_refused_until_it_is_decomposed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row * 2 + row.sum())(x)

    exported = torch.export.export(Lambda(function), (FOUR,))
    if any("vmap" in str(n.target) for n in exported.graph.nodes):
        with pytest.raises(UnsupportedError, match=r"is inside vmap.*run_decompositions"):
            import_program(exported)
    assert storage(import_program(exported.run_decompositions()), "root/add").size == 64


# Delegates and scratch.


class LoweredBackendModule(nn.Module):
    """Stands for ExecuTorch's: the front end knows it by name, without importing ExecuTorch."""

    def __init__(self, scratch: int | None) -> None:
        super().__init__()
        self.meta = {} if scratch is None else {"scratch_bytes": scratch}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()


def _delegated(scratch: int | None) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    once = graph.call_module("lowered", (x,))
    twice = graph.call_module("lowered", (once,))
    graph.output(twice)
    for node in (x, once, twice):
        node.meta["val"] = torch.empty(4, device="meta")
    holder = nn.Module()
    holder.lowered = LoweredBackendModule(scratch)
    return torch.fx.GraphModule(holder, graph)


def test_delegates_are_opaque_steps_with_scratch_in_a_region_of_their_own() -> None:
    result = import_program(_delegated(100))
    assert [(r.name, r.kind, r.parent) for r in result.program.regions] == [
        ("root", "root", None),
        ("root/lowered", "delegate", 0),
    ]
    scratch = [s for s in result.program.storages if s.kind == "scratch"]
    assert [(s.size, s.region, s.planned) for s in scratch] == [(112, 1, True), (112, 1, True)]
    steps = region(result, "root").steps
    assert [result.program.storages[s.scratch[0]] for s in steps] == scratch
    assert names(result, steps[0].reads) == ["root/x"]
    assert [s.kind for s in import_program(_delegated(None)).program.storages] == [
        "input",
        "temporary",
        "output",
    ]


def test_scratch_by_option_wins_and_serves_any_node() -> None:
    result = import_program(_delegated(100), Request(scratch={"lowered": 40}))
    assert [s.size for s in result.program.storages if s.kind == "scratch"] == [48, 112]
    plain = imported(lambda x: x.sin(), FOUR, scratch={"sin": 5})
    (scratch,) = (s for s in plain.program.storages if s.kind == "scratch")
    assert (scratch.name, scratch.size, scratch.region) == ("root/sin/scratch", 16, 0)


def test_scratch_names_one_node_and_one_that_is_there() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.sin(), (x,))

    program = torch.export.export(Lambda(function), (FOUR,))
    one = import_program(program, Request(scratch={"root/true_graph_0/sin": 40}))
    assert [(s.name, s.size) for s in one.program.storages if s.kind == "scratch"] == [
        ("root/true_graph_0/sin/scratch", 48)
    ]
    both = "'sin': say which one: root/true_graph_0/sin, root/false_graph_0/sin"
    with pytest.raises(InputError, match=both):
        import_program(program, Request(scratch={"sin": 40}))
    for missing in ("typo", "root/sin", "cond"):
        with pytest.raises(InputError, match=f"'{missing}': no such node runs a kernel"):
            import_program(program, Request(scratch={missing: 40}))


@pytest.mark.parametrize("options", [{"alignment": 0}, {"alignment": 1.5}, {"scratch": {"x": -1}}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="whole number of bytes"):
        Request(**options)


# Files.


def test_broken_files_are_one_line_errors(tmp_path: Path) -> None:
    good = tmp_path / "good.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 4), (FOUR,)), good)
    content = good.read_bytes()
    foreign = tmp_path / "foreign.pt2"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("hello.txt", "hello")
    flipped = bytearray(content)
    flipped[len(content) // 3] ^= 0xFF
    files = {
        "missing.pt2": None,
        "empty.pt2": b"",
        "cut.pt2": content[: len(content) // 2],
        "flipped.pt2": bytes(flipped),
        "text.pt2": b"not a zip at all",
        "foreign.pt2": foreign.read_bytes(),
    }
    for name, data in files.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError) as caught:
            load(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"is neither an ExportedProgram"):
        import_program(3)  # type: ignore[arg-type]


# Real models.


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REAL_MODELS))
def test_real_models_alias_as_they_run(name: str) -> None:
    """Run the graph on real memory: what shares a storage here must share one there, and the reverse."""
    torch.manual_seed(0)
    module, inputs = REAL_MODELS[name]()
    exported = torch.export.export(module, inputs)
    result = import_program(exported)
    binding, shared = result.regions[0], []

    def home(position: Any) -> int | None:
        found = result.program.values[position]
        while found.storage is None:
            found = result.program.values[found.aliases[0]]
        return found.storage

    class Watch(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> Any:
            made = super().run_node(node)
            for source in node.all_input_nodes if node.op == "call_function" else ():
                given = self.env[source]
                if isinstance(made, torch.Tensor) and isinstance(given, torch.Tensor):
                    real = made.untyped_storage()._cdata == given.untyped_storage()._cdata
                    ours = home(binding.values[node]) == home(binding.values[source])
                    # A kernel's strides may not be its fake's: then ``contiguous`` finds nothing to do.
                    if real != ours and not (real and str(node.target) == "aten.contiguous.default"):
                        shared.append(node.name)
            return made

    given = iter(inputs)
    with torch.no_grad():
        Watch(exported.graph_module).run(
            *(next(given) if i.kind == "user" else i.tensor for i in result.inputs)
        )
    assert shared == []


def test_thousands_of_nodes_import_in_seconds() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        made = x + 1
        for _ in range(1000):
            made = made.add_(1).view(-1).reshape(4, 4)
        return made

    exported = torch.export.export(Lambda(function), (FOUR,))
    start = time.process_time()
    result = import_program(exported)
    assert time.process_time() - start < 5
    assert len(result.program.regions[0].steps) == 3001
    assert len(result.program.storages) == 2
    assert len(max((v.aliases for v in result.program.values), key=len)) == 1
