"""The command line: ``lowtide plan``, ``verify``, ``replay``, ``compare``."""

from lowtide.cli.app import main

__all__ = ["main"]
