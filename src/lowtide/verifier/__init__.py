"""Checks of plans that share no algorithm with what made them."""
