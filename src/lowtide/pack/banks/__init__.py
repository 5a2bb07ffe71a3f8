"""Which bank of a memory map each buffer goes to: pins, the choice, and packings that hold it."""
