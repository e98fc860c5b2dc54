"""What to run of PyTorch's own tests, and how a result is judged. Importing this imports no torch."""
