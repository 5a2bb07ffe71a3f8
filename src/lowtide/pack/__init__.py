"""Packers: a Problem with one arena in, offsets out. ``registry`` says how to add one."""

from lowtide.pack.registry import Options, Packer, Packing, get, names, register

__all__ = ["Options", "Packer", "Packing", "get", "names", "register"]
