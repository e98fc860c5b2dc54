"""Keeping a library's progress bars and advice out of a worker's output."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from transformers.utils import logging


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers below errors, and its bars, for the length of a block."""
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
