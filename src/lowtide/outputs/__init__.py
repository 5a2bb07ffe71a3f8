"""Outputs: one format a file."""
