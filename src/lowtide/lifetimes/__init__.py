"""Program -> Problem: when every buffer is alive, on one clock."""
