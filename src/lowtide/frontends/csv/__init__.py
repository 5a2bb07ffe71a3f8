"""Buffers in CSV, in any dialect that MiniMalloc reads."""
