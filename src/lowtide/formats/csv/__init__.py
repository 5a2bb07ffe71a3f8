"""CSV: problems and plans, read and written."""
