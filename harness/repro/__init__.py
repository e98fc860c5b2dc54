"""``harness repro``: a case of a run as one command and as a script that fails the same way."""

from harness.repro.reproduction import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
