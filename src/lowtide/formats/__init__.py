"""Problems and plans as text: JSON and CSV, reader and writer together."""
