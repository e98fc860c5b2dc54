"""The claims, a module a topic."""
