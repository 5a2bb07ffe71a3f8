"""The command line: ``lowtide plan``, ``explain``, ``check``, ``diff`` and the others that ``app`` lists."""

from lowtide.cli.app import main

__all__ = ["main"]
