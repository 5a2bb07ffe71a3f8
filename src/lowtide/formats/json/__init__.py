"""JSON: problems and plans, read and written."""
