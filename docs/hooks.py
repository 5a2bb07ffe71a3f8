"""MkDocs hook: the command-line reference, written from the commands themselves."""

from __future__ import annotations

import inspect
import re
from typing import Any

from mkdocs.structure.files import File, Files
from typer.main import get_command

_INTRODUCTION = """\
FILE is told apart by its content. The exit status is 0 if all is well, 1 if the answer is no (a wrong plan,
an arena over its capacity or budget, plans that differ), 2 if the input cannot be used or contradicts itself;
no output file is touched then. Sizes are written as bytes or with a unit: `262144`, `256KiB`, `0x40000`.

`lowtide --install-completion` teaches your shell to complete commands and options. Colour is used on a
terminal only, and not if `NO_COLOR` is set."""

_MARKUP = re.compile(r"\[/?[a-z]*\]")


def on_files(files: Files, config: Any) -> Files:
    """Add the page; there is no such file."""
    files.append(File.generated(config, "reference/cli.md", content=_page()))
    return files


def _page() -> str:
    from lowtide.cli.app import app

    group: Any = get_command(app)
    parts = [
        "# Command line",
        "",
        _INTRODUCTION,
        "",
    ]
    for name, command in group.commands.items():
        parts += [f"## lowtide {name}", "", *_help(command.callback.__doc__), "", *_parameters(command), ""]
    return "\n".join(parts)


def _help(docstring: str | None) -> list[str]:
    """The help as Markdown: examples become code."""
    lines = []
    for line in inspect.cleandoc(docstring or "").splitlines():
        if line.strip().startswith("lowtide "):
            if len(lines) > 1 and not lines[-1] and lines[-2].startswith("    "):
                lines.pop()
            lines.append(f"    {line.strip()}")
        else:
            lines.append(
                _MARKUP.sub(lambda match: "**" if "bold" in match[0] or match[0] == "[/]" else "", line)
            )
    return lines


def _parameters(command: Any) -> list[str]:
    rows = ["| argument or option | |", "|---|---|"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            rows.append(f"| `{parameter.metavar}` | {_cell(parameter.help)} |")
        elif parameter.name != "help":
            value = f" {parameter.metavar}" if parameter.metavar and not parameter.is_flag else ""
            said = _cell(parameter.help)
            if parameter.default not in (None, False, ()) and getattr(parameter, "show_default", False):
                said += f" Default: `{parameter.default}`."
            rows.append(f"| `{', '.join(parameter.opts)}{_cell(value)}` | {said} |")
    return rows


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")
