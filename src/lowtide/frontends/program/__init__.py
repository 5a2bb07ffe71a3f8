"""Programs that were written down as values."""
