"""Lowtide."""
