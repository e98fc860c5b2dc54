"""PyTorch's own test files on any device: where they come from, what they are for, how pytest loads them."""

NAME = "upstream"
"""First part of the ids of the suite's cases."""
