"""Problems and plans in JSON."""
