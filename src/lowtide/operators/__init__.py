"""What operators do to memory, as data and one reader of schemas."""
