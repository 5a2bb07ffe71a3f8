"""The program that runs: commands by name, and what becomes of errors.

Exit status: 0 done; 1 the answer is no (a wrong plan, an arena over its capacity or budget, plans that
differ); 2 the input cannot be used; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Annotated, NoReturn

import typer

from lowtide import __version__
from lowtide.base.errors import (
    InfeasibleError,
    LowtideError,
    ProgramError,
    ReplayError,
    UntestedVersionWarning,
    VerificationError,
)
from lowtide.cli import audit, check, compare, diff, explain, fit, plan, repack, replay, show, verify

app = typer.Typer(
    name="lowtide",
    help="Plan the memory of tensor programs ahead of time.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
)

app.command()(plan.plan)
app.command()(show.show)
app.command()(verify.verify)
app.command()(replay.replay)
app.command()(compare.compare)
app.command()(explain.explain)
app.command()(check.check)
app.command()(fit.fit)
app.command()(diff.diff)
app.command()(audit.audit)
app.command()(repack.repack)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lowtide {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in Lowtide an error comes from.")
    ] = False,
) -> None:
    """Plan the memory of tensor programs ahead of time.

    FILE is a [bold].pt2[/] that torch.export saved, a [bold].pte[/] of ExecuTorch, a [bold].tflite[/] for
    TensorFlow Lite Micro, a problem or a plan in JSON, or a list of buffers in CSV; which one is told by its
    content.
    """
    del version
    _State.traceback = traceback


class _State:
    """What the options before the command said."""

    traceback = False


def main() -> NoReturn:
    """Run the command line and exit."""
    warnings.filterwarnings("ignore")  # PyTorch's own deprecations are not for whoever plans a file
    warnings.filterwarnings("always", category=UntestedVersionWarning)
    warnings.showwarning = _show_warning
    try:
        app()
        sys.exit(0)
    except ProgramError as error:
        _fail(error, 2)
    except (VerificationError, ReplayError, InfeasibleError) as error:
        _fail(error, 1)
    except LowtideError as error:
        _fail(error, 2)
    except KeyboardInterrupt:
        typer.echo("lowtide: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has had enough; say nothing more on a closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        typer.echo("lowtide: error: out of memory", err=True)
        sys.exit(2)
    except OSError as error:
        _give_up(error, f"error: {error.strerror or error}")
    except Exception as error:
        _give_up(error, f"internal error: {type(error).__name__}: {_one_line(str(error))} (please report it)")


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"lowtide: warning: {message}", err=True)


def _one_line(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= 200 else f"{shown[:200]}..."


def _give_up(error: Exception, message: str) -> NoReturn:
    """One line and exit 2 for what Lowtide did not foresee."""
    _show_traceback(error)
    # What could not be written stays in the buffer, and would be tried, and fail, once more at exit.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    typer.echo(f"lowtide: {message}", err=True)
    sys.exit(2)


def _show_traceback(error: Exception) -> None:
    if _State.traceback:
        import traceback

        traceback.print_exception(error)


def _fail(error: LowtideError, status: int) -> NoReturn:
    _show_traceback(error)
    if isinstance(error, VerificationError):
        for violation in error.violations:
            typer.echo(f"  {violation}", err=True)
        count = len(error.violations)
        typer.echo(f"lowtide: the plan is wrong: {count} fault{'s' if count > 1 else ''}", err=True)
    else:
        typer.echo(f"lowtide: error: {error}", err=True)
    sys.exit(status)
