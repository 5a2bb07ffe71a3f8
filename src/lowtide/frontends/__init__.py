"""Front ends: one input format a file."""
