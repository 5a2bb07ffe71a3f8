"""ExecuTorch: arena bytes and planning time of the stock pass and of Lowtide's, all run on the real runtime.

    python -m benchmarks.executorch_models            # the tests' models, small and complete
    python -m benchmarks.executorch_models --tiny     # Swin-Tiny, ConvNeXt-Tiny, ViT-Tiny, BERT-small ...
    python -m benchmarks.executorch_models --zoo      # control-flow programs, against eager

Names after the option choose some. Planning time is processor time inside the pass, and its share of
processor time of the whole of ``to_executorch``: the best of several lowerings, since whatever else the
machine does only adds to it. ``--markdown`` prints rows as they come, for the documentation.
"""

from __future__ import annotations

import argparse
import copy
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass as StockPass
from rich import box
from rich.console import Console
from rich.table import Table

from lowtide.executorch import MemoryPlanningPass

_TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(_TESTS / "helpers"))

Model = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


class _Timed:
    """Mixed into a pass: processor seconds that planning took."""

    seconds = 0.0

    def run(self, *arguments: Any) -> Any:
        began = time.process_time()
        found = super().run(*arguments)  # type: ignore[misc]
        self.seconds = time.process_time() - began
        return found


class TimedStock(_Timed, StockPass):
    """The stock pass, timed."""


class TimedLowtide(_Timed, MemoryPlanningPass):
    """Lowtide's pass, timed."""


def tiny_models() -> dict[str, Callable[[], Model]]:
    """Published small configurations at full size, with random weights."""
    import transformers as t

    from models import Pick

    def image(build: Any, config: Any, size: int, *fields: str) -> Callable[[], Model]:
        def make() -> Model:
            return Pick(build(config), ("pixel_values",), fields), (torch.randn(1, 3, size, size),)

        return make

    def text(build: Any, config: Any, length: int, *fields: str) -> Callable[[], Model]:
        def make() -> Model:
            ids = torch.randint(0, config.vocab_size, (1, length))
            return Pick(build(config), ("input_ids", "attention_mask"), fields), (ids, torch.ones_like(ids))

        return make

    vit = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
    return {
        "Swin-Tiny": image(t.SwinForImageClassification, t.SwinConfig(), 224, "logits"),
        "ConvNeXt-Tiny": image(t.ConvNextForImageClassification, t.ConvNextConfig(), 224, "logits"),
        "ViT-Tiny": image(t.ViTForImageClassification, t.ViTConfig(**vit), 224, "logits"),
        "YOLOS-tiny": image(
            t.YolosForObjectDetection,
            t.YolosConfig(**vit, image_size=[256, 256], num_detection_tokens=100),
            256,
            "logits",
            "pred_boxes",
        ),
        "BERT-small": text(
            t.BertForSequenceClassification,
            t.BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048),
            128,
            "logits",
        ),
    }


COLUMNS = (
    "buffers",
    "bound",
    "stock",
    "/ bound",
    "Lowtide",
    "/ bound",
    "stock plan, ms",
    "plan, ms",
    "of `to_executorch`",
    "outputs",
)


def rows(models: dict[str, Callable[[], Model]], repeat: int) -> Iterator[tuple[str, ...]]:
    """One row a model: its name, then the columns; outputs of both plans are compared bit for bit.

    Args:
        models: what to lower.
        repeat: how often to lower each with either pass.
    """
    from runtime import differences, edge_of

    for name, build in models.items():
        torch.manual_seed(0)
        model, inputs = build()
        edge = edge_of(model, inputs)
        stock = min((_lower(edge, TimedStock()) for _ in range(repeat)), key=lambda run: run.planning)
        lowtide = min((_lower(edge, TimedLowtide()) for _ in range(repeat)), key=lambda run: run.share)
        outputs = [run.lowered.run([inputs, inputs]) for run in (stock, lowtide)]
        same = not differences(outputs[0], outputs[1], close=False)
        plan, bound = lowtide.planned.plan, lowtide.planned.plan.lower_bound_bytes
        bytes_ = [run.lowered.arena_bytes() for run in (stock, lowtide)]
        yield (
            name,
            f"{len(plan.offsets):,}",
            f"{bound:,}",
            f"{bytes_[0]:,}",
            f"{bytes_[0] / bound:.2f}",
            f"{bytes_[1]:,}",
            f"{bytes_[1] / bound:.2f}",
            f"{stock.planning * 1000:.0f}",
            f"{lowtide.planning * 1000:.0f}",
            f"{lowtide.share:.1%}",
            "equal" if same else "DIFFER",
        )


@dataclass(frozen=True)
class _Lowering:
    """One lowering: the program, the pass, and processor seconds of planning and of all of it."""

    lowered: Any
    planned: Any
    planning: float
    whole: float

    @property
    def share(self) -> float:
        """Of planning in the whole."""
        return self.planning / self.whole


def _lower(edge: Any, planning: Any) -> _Lowering:
    from runtime import Lowered

    fresh = copy.deepcopy(edge)
    began = time.process_time()
    manager = fresh.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    whole = time.process_time() - began
    return _Lowering(Lowered(manager, manager.buffer), planning, planning.seconds, whole)


def print_models(models: dict[str, Callable[[], Model]], repeat: int, markdown: bool) -> None:
    """Print a row for each model."""
    if markdown:
        print("| model | " + " | ".join(COLUMNS) + " |")
        print("|---|" + "---:|" * len(COLUMNS))
        for row in rows(models, repeat):
            print("| " + " | ".join(row) + " |", flush=True)
        return
    table = Table("model", box=box.SIMPLE_HEAD, title="ExecuTorch: arena bytes of real models")
    for column in COLUMNS:
        table.add_column(column.replace("`", ""), justify="right")
    for row in rows(models, repeat):
        table.add_row(*row)
    _print(table)


def _print(table: Table) -> None:
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def zoo_table(names: list[str]) -> Table:
    """One row a control-flow program: outputs against eager, arena bytes."""
    from runtime import differences, eager, edge_of, lower, runs
    from zoo import ZOO

    table = Table("program", box=box.SIMPLE_HEAD, title="Control flow on the real runtime")
    for column in ("stock", "stock bytes", "Lowtide", "Lowtide bytes", "bound"):
        table.add_column(column, justify="right")
    wrong = broken = right = least = 0
    for name in names or ZOO:
        torch.manual_seed(0)
        model, calls = ZOO[name]()
        expected, edge = eager(model, calls), edge_of(model, calls[0])
        found = runs(lambda edge=edge: lower(edge, StockPass()), calls)
        verdict, size = "fails to lower", ""
        if not isinstance(found, str):
            verdict = "WRONG" if differences(expected, found) else "right"
            size = f"{lower(edge, StockPass()).arena_bytes():,}"
        wrong, broken = wrong + (verdict == "WRONG"), broken + isinstance(found, str)
        planning = MemoryPlanningPass()
        lowered = lower(edge, planning)
        mine = "WRONG" if differences(expected, lowered.run(calls)) else "right"
        right, least = right + (mine == "right"), least + planning.plan.is_optimal
        table.add_row(
            name, verdict, size, mine, f"{lowered.arena_bytes():,}", f"{planning.plan.lower_bound_bytes:,}"
        )
    table.caption = (
        f"stock: {wrong} wrong, {broken} fail to lower; "
        f"Lowtide: {right} of {table.row_count} right, {least} proved minimal"
    )
    return table


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="published configurations at full size")
    parser.add_argument("--zoo", action="store_true", help="control-flow programs")
    parser.add_argument("--repeat", type=int, default=3, help="lowerings of each model with either pass")
    parser.add_argument("--markdown", action="store_true", help="print the models as a Markdown table")
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if arguments.zoo:
        _print(zoo_table(arguments.names))
        return
    from models import REAL_MODELS

    models = tiny_models() if arguments.tiny else dict(REAL_MODELS)
    chosen = {name: models[name] for name in arguments.names or models}
    print_models(chosen, arguments.repeat, arguments.markdown)


if __name__ == "__main__":
    main()
